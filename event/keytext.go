package event

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// The text of a key is the texts of its values, joined by '+'. Inside a value, '+', '%' and what
// does not print become %XX, one for each byte, in upper case; NULL is a '%' alone. So no two keys
// of as many columns have the same text, and [ParseKey] reads it back.
const (
	keySeparator = '+'
	keyEscape    = '%'
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
			dst = appendKeyEscape(dst, b)
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

func appendKeyEscape(dst []byte, b byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, keyEscape, hex[b>>4], hex[b&15])
}

// ParseKey is the inverse of the text of a key: it returns the texts of its values, nil for NULL.
// They may lie in key. It refuses other texts, so that no two texts have the same values.
func ParseKey(key []byte) ([][]byte, error) {
	var values [][]byte
	for part := range bytes.SplitSeq(key, []byte{keySeparator}) {
		value, ok := parseKeyText(part)
		if !ok {
			return nil, fmt.Errorf("read the key %.80q: %.40q is not the text of a value", key, part)
		}
		values = append(values, value)
	}
	return values, nil
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
		high, low := hexDigit(part[i+1]), hexDigit(part[i+2])
		if high > 15 || low > 15 {
			return nil, false
		}
		value = append(value, high<<4|low)
		i += 2
	}
	return value, bytes.Equal(AppendKeyText(nil, value), part)
}

// hexDigit returns the value of a hexadecimal digit in upper case, 16 for what is none.
func hexDigit(b byte) byte {
	switch {
	case b >= '0' && b <= '9':
		return b - '0'
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10
	}
	return 16
}
