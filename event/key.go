package event

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"

	"example.org/bridge/source"
)

// keyTexts writes and reads the texts of keys. It reuses its memory and serves one goroutine.
type keyTexts struct{ text []byte }

// append appends the text of the entity key of a row: byte strings in base64, bits as a number, all
// other values as they are.
func (t *keyTexts) append(dst []byte, columns *source.Columns, row [][]byte) []byte {
	for n, i := range columns.Key {
		if n > 0 {
			dst = append(dst, keySeparator)
		}
		dst = t.appendValue(dst, columns.List[i].Kind, row[i])
	}
	return dst
}

func (t *keyTexts) appendValue(dst []byte, kind source.Kind, v []byte) []byte {
	switch {
	case v == nil:
	case kind == source.Binary:
		// The byte in front keeps an empty text from being nil, which is NULL.
		t.text = base64.StdEncoding.AppendEncode(append(t.text[:0], 0), v)
		v = t.text[1:]
	case kind == source.Bit:
		if bits, ok := appendBits(append(t.text[:0], 0), v); ok {
			t.text, v = bits, bits[1:]
		}
	}
	return AppendKeyText(dst, v)
}

// KeyValues appends the values of the key columns in key, which is as Event.Key has it, to dst: in
// the order of the key, in the normal form of their columns, nil for NULL; bits have no zero bytes
// in front, for a key does not tell the width of their column. They may lie in key. It fails, with
// dst as long as it was, when key is not exactly what Append writes for a key of as many columns as
// the bound shape has.
func (e *Encoder) KeyValues(key []byte, dst [][]byte) ([][]byte, error) {
	if e.plan == nil {
		return dst, errUnbound
	}
	columns := e.plan.columns.Key
	if bytes.Count(key, []byte{keySeparator}) != len(columns)-1 {
		return dst, keyFault(key, e)
	}
	out, rest := dst, key
	for _, i := range columns {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte{keySeparator})
		v, ok := parseKeyText(part)
		if ok {
			v, ok = e.texts.value(e.plan.columns.List[i].Kind, v)
		}
		if !ok {
			return dst, keyFault(key, e)
		}
		out = append(out, v)
	}
	return out, nil
}

// keyFault is the error of a text that is not a key of the bound shape.
func keyFault(key []byte, e *Encoder) error {
	return fmt.Errorf("read the key %.80q: it does not hold the values of %d key columns of table %s", key, len(e.plan.columns.Key), e.options.Table)
}

// value returns the value whose text in a key is text. It is the inverse of appendValue, and
// refuses what that does not write.
func (t *keyTexts) value(kind source.Kind, text []byte) (v []byte, ok bool) {
	switch {
	case text == nil:
		return nil, true
	case kind == source.Binary:
		v, err := base64.StdEncoding.AppendDecode([]byte{}, text)
		t.text = base64.StdEncoding.AppendEncode(t.text[:0], v)
		// Other texts decode, too: with line breaks, or with bits that are left over.
		return v, err == nil && bytes.Equal(t.text, text)
	case kind == source.Bit:
		return t.bits(text)
	}
	return text, true
}

// bits returns the bits with a text. More than 64 of them are their own text.
func (t *keyTexts) bits(text []byte) (v []byte, ok bool) {
	if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		v = binary.BigEndian.AppendUint64(nil, n)
		v = append([]byte{}, v[min(7, len(v)-len(bytes.TrimLeft(v, "\x00"))):]...)
		if t.text = strconv.AppendUint(t.text[:0], n, 10); bytes.Equal(t.text, text) {
			return v, true
		}
	}
	_, short := appendBits(t.text[:0], text)
	return text, !short
}

// The text of a key is the texts of its values, joined by '+'. Inside a value, '+', '%' and what
// does not print become %XX, one for each byte, in upper case; NULL is a '%' alone. So no two keys
// of as many columns have the same text, and [Encoder.KeyValues] reads it back.
const (
	keySeparator = '+'
	keyEscape    = '%'
	upperHex     = "0123456789ABCDEF"
)

// AppendKeyText appends the text of one value of a key to dst; a nil value is NULL. Between values
// stands a '+'.
func AppendKeyText(dst, value []byte) []byte {
	if value == nil {
		return append(dst, keyEscape)
	}
	for len(value) > 0 {
		n := plainKeyBytes(value)
		dst = append(dst, value[:n]...)
		if value = value[n:]; len(value) == 0 {
			break
		}
		_, n = utf8.DecodeRune(value)
		for _, b := range value[:n] {
			dst = append(dst, keyEscape, upperHex[b>>4], upperHex[b&15])
		}
		value = value[n:]
	}
	return dst
}

// plainKeyBytes returns how many bytes at the beginning of value stand for themselves.
func plainKeyBytes(value []byte) int {
	for i := 0; i < len(value); {
		if b := value[i]; b < utf8.RuneSelf {
			if b < ' ' || b == 0x7f || b == keySeparator || b == keyEscape {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(value[i:])
		if r == utf8.RuneError && n == 1 || unprintable(r) {
			return i
		}
		i += n
	}
	return len(value)
}

// unprintable reports whether a rune beyond ASCII shows nothing, or changes how its neighbours
// show. The list is fixed: with the tables of package unicode, which grow, a new version of Go
// would give entities other keys.
func unprintable(r rune) bool {
	switch {
	case r < 0xa0: // C1 controls
	case r >= 0x200b && r <= 0x200f: // zero width, direction
	case r >= 0x2028 && r <= 0x202e: // separators of lines, embeddings
	case r >= 0x2060 && r <= 0x206f: // joiners, isolates
	case r == 0xfeff, r >= 0xfff9 && r <= 0xfffb: // byte order mark, annotations
	case r&0xfffe == 0xfffe: // no characters
	default:
		return false
	}
	return true
}

// parseKeyText is the inverse of AppendKeyText. The value may lie in part.
func parseKeyText(part []byte) (value []byte, ok bool) {
	switch {
	case len(part) == 0:
		return []byte{}, true
	case string(part) == string(rune(keyEscape)):
		return nil, true
	case plainKeyBytes(part) == len(part):
		return part[:len(part):len(part)], true
	}
	value = make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] != keyEscape {
			value = append(value, part[i])
			continue
		}
		if len(part)-i < len("%XX") {
			return nil, false
		}
		b, err := strconv.ParseUint(string(part[i+1:i+3]), 16, 8)
		if err != nil {
			return nil, false
		}
		value = append(value, byte(b))
		i += 2
	}
	return value, bytes.Equal(AppendKeyText(nil, value), part)
}
