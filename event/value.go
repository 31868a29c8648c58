package event

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// maxDepth is two levels, the event's own, below the 10000 that encoding/json reads.
const maxDepth = 9998

const (
	badText    = "is not valid UTF-8"
	badInteger = "is not an integer"
	badNumber  = "is not a number"
	badBits    = "has more than 64 bits"
	badJSON    = "is not valid JSON"
	badTime    = "is a zero or impossible date"
)

// BadValueError says that a row has a value that cannot be encoded, under StopOnBad. It does not
// quote the value.
type BadValueError struct {
	Table  string
	Row    uint64
	Column string
	// Fault says what is wrong with the value, as a verb phrase.
	Fault string
}

func (e *BadValueError) Error() string { return e.Named(option.Short) }

// Named returns the text with the settings named by naming.
func (e *BadValueError) Named(naming option.Naming) string {
	return option.Sprintf(naming, "column %q of row %d of table %s %s: correct the row, leave the column out of %s (with %s=%s where that is not set), or set %s=null to publish null instead",
		e.Column, e.Row, e.Table, e.Fault, option.Fields, option.Exclude, e.Column, option.OnBadValue)
}

// values encodes column values as JSON. It reuses its memory and serves one goroutine.
type values struct {
	zone    *time.Location
	compact bytes.Buffer
}

// append appends null and says what is wrong where v cannot be encoded, else fault is empty.
func (s *values) append(dst []byte, c *source.Column, v []byte) (out []byte, fault string) {
	if v == nil {
		return append(dst, "null"...), ""
	}
	var ok bool
	switch c.Kind {
	case source.Int:
		out, ok = appendInteger(dst, v)
		fault = badInteger
	case source.Float:
		out, ok = append(dst, v...), isNumber(v)
		fault = badNumber
	case source.Binary:
		out, ok = append(base64.StdEncoding.AppendEncode(append(dst, '"'), v), '"'), true
	case source.Bit:
		out, ok = appendBits(dst, v)
		fault = badBits
	case source.JSON:
		out, ok = s.appendJSON(dst, v)
		fault = badJSON
	case source.Date:
		_, ok = c.Time(v, time.UTC)
		out = append(append(append(dst, '"'), v...), '"')
		fault = badTime
	case source.DateTime, source.Timestamp:
		out, ok = s.appendTime(dst, c, v)
		fault = badTime
	default: // Text, Decimal, Clock
		out, ok = appendString(dst, v)
		fault = badText
	}
	if !ok {
		return append(dst, "null"...), fault
	}
	return out, ""
}

// appendTime appends a wall clock as RFC 3339 in UTC with the fraction digits of its column.
func (s *values) appendTime(dst []byte, c *source.Column, v []byte) ([]byte, bool) {
	if c.Kind == source.Timestamp || s.zone == time.UTC {
		if !c.IsTime(v) {
			return dst, false
		}
		return appendClock(dst, c, v), true
	}
	t, ok := c.Time(v, s.zone)
	if !ok {
		return dst, false
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(dst, '"')
	dst = appendDigits(dst, year, 4)
	dst = appendDigits(append(dst, '-'), int(month), 2)
	dst = appendDigits(append(dst, '-'), day, 2)
	dst = appendDigits(append(dst, 'T'), hour, 2)
	dst = appendDigits(append(dst, ':'), minute, 2)
	dst = appendDigits(append(dst, ':'), second, 2)
	if precision := min(c.Precision, 9); precision > 0 {
		dst = appendDigits(append(dst, '.'), t.Nanosecond(), 9)
		dst = dst[:len(dst)-9+precision]
	}
	return append(dst, 'Z', '"'), true
}

// appendClock does as appendTime would for a time in UTC, without a calendar.
func appendClock(dst []byte, c *source.Column, v []byte) []byte {
	const day, second = len(time.DateOnly), len(time.DateTime)
	dst = append(append(dst, '"'), v[:day]...)
	dst = append(append(dst, 'T'), v[day+1:second]...)
	if precision := min(c.Precision, 9); precision > 0 {
		// One byte of the fraction is its point.
		given := min(len(v)-second, precision+1)
		dst = append(dst, v[second:second+given]...)
		if given == 0 {
			dst, given = append(dst, '.'), 1
		}
		dst = append(dst, "000000000"[:precision+1-given]...)
	}
	return append(dst, 'Z', '"')
}

// appendDigits appends n, which is not negative, in exactly width digits.
func appendDigits(dst []byte, n, width int) []byte {
	const zeros = "000000000"
	dst = append(dst, zeros[:width]...)
	for i := len(dst) - 1; n > 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// appendJSON appends a document without the blanks between its tokens, as encoding/json does.
func (s *values) appendJSON(dst, v []byte) ([]byte, bool) {
	if !utf8.Valid(v) || len(v) > 2*maxDepth && tooDeep(v) {
		return dst, false
	}
	const keepBytes = 1 << 20
	if s.compact.Cap() > keepBytes {
		s.compact = bytes.Buffer{}
	}
	s.compact.Reset()
	if err := json.Compact(&s.compact, v); err != nil {
		return dst, false
	}
	return append(dst, s.compact.Bytes()...), true
}

// tooDeep reports whether arrays and objects nest deeper than maxDepth.
func tooDeep(v []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch b := v[i]; {
		case quoted:
			switch b {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case b == '"':
			quoted = true
		case b == '[' || b == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case b == ']' || b == '}':
			depth--
		}
	}
	return false
}

// appendBits appends a big-endian bit field of up to 64 bits as a number.
func appendBits(dst, v []byte) ([]byte, bool) {
	v = bytes.TrimLeft(v, "\x00")
	if len(v) > 8 {
		return dst, false
	}
	var n uint64
	for _, b := range v {
		n = n<<8 | uint64(b)
	}
	return strconv.AppendUint(dst, n, 10), true
}

const hexDigits = "0123456789abcdef"

// plain holds the ASCII bytes that stand in a JSON string as they are.
var plain = func() (set [utf8.RuneSelf]bool) {
	for b := range set {
		set[b] = b >= ' ' && b != '"' && b != '\\'
	}
	return set
}()

// appendString appends text as a JSON string, byte for byte as encoding/json writes it without HTML
// escaping, and reports whether text is valid UTF-8. Where it is not, nothing is appended.
func appendString(dst, text []byte) ([]byte, bool) {
	begin, start := len(dst), 0
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		if i+8 <= len(text) {
			n := plainBytes(binary.LittleEndian.Uint64(text[i:]))
			if i += n; n == 8 {
				continue
			}
		}
		if b := text[i]; b < utf8.RuneSelf {
			if !plain[b] {
				dst = appendEscaped(append(dst, text[start:i]...), b)
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return dst[:begin], false
		}
		// Line and paragraph separator, which JavaScript once took for the end of a line.
		if r == '\u2028' || r == '\u2029' {
			dst = append(append(dst, text[start:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"'), true
}

// plainBytes returns how many bytes of w, the lowest first, are plain before one that is not.
func plainBytes(w uint64) int {
	const each = 0x0101010101010101
	control := w - ' '*each
	quote := w ^ '"'*each - each
	backslash := w ^ '\\'*each - each
	// A subtraction borrows only from bytes above one that is not plain: the lowest bit is right.
	return bits.TrailingZeros64((w|control|quote|backslash)&(0x80*each)) / 8
}

func appendEscaped(dst []byte, b byte) []byte {
	if i := strings.IndexByte("\"\\\b\f\n\r\t", b); i >= 0 {
		return append(dst, '\\', `"\bfnrt`[i])
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
}

// appendInteger appends decimal digits as a JSON number, without the zeros that a ZEROFILL column
// leads with, and reports whether v is an integer. Where it is not, nothing is appended.
func appendInteger(dst, v []byte) ([]byte, bool) {
	digits := v
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || skipDigits(digits) != len(digits) {
		return dst, false
	}
	negative := len(digits) < len(v)
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if negative && digits[0] != '0' {
		dst = append(dst, '-')
	}
	return append(dst, digits...), true
}

// isNumber reports whether v is a number by the grammar of JSON (RFC 8259, section 6).
func isNumber(v []byte) bool {
	v = bytes.TrimPrefix(v, []byte("-"))
	n := skipDigits(v)
	if n == 0 || n > 1 && v[0] == '0' {
		return false
	}
	v = v[n:]
	if len(v) > 0 && v[0] == '.' {
		if n = skipDigits(v[1:]); n == 0 {
			return false
		}
		v = v[1+n:]
	}
	if len(v) > 0 && (v[0] == 'e' || v[0] == 'E') {
		v = v[1:]
		if len(v) > 0 && (v[0] == '+' || v[0] == '-') {
			v = v[1:]
		}
		if n = skipDigits(v); n == 0 {
			return false
		}
		v = v[n:]
	}
	return len(v) == 0
}

// skipDigits returns how many digits v begins with.
func skipDigits(v []byte) int {
	for i, b := range v {
		if b < '0' || b > '9' {
			return i
		}
	}
	return len(v)
}
