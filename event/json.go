package event

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

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

// plainBytes returns how many of the eight bytes of w, the lowest first, are plain before one that
// is not.
func plainBytes(w uint64) int {
	const each = 0x0101010101010101
	control := w - ' '*each
	quote := w ^ '"'*each - each
	backslash := w ^ '\\'*each - each
	// A subtraction borrows only from bytes above one that is not plain: the lowest bit is right.
	return bits.TrailingZeros64((w|control|quote|backslash)&(0x80*each)) / 8
}

// appendEscaped appends an ASCII byte that may not stand in a JSON string as it is.
func appendEscaped(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
	}
}

// appendBase64 appends v as a JSON string in standard base64 with padding.
func appendBase64(dst, v []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v)
	return append(dst, '"')
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
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
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
