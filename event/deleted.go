package event

import (
	"bytes"

	"bridge/source"
)

// isDeleted reports whether v, the value of a DELETED column, says that its row is deleted. These
// do not: NULL, a number equal to zero, bits that are all zero, the empty string, the words "0",
// "f", "false", "n" and "no" in any letter case, JSON null, and a zero date. Everything else does:
// 1, "Y", the time of the deletion.
func isDeleted(c source.Column, v []byte) bool {
	if v == nil {
		return false
	}
	switch c.Kind {
	case source.Int, source.Decimal, source.Float:
		return !isZero(v)
	case source.Bit:
		return !allZero(v)
	case source.Binary:
		return !allZero(v) && !isNo(v)
	case source.JSON:
		return !isNo(v) && !bytes.Equal(v, []byte("null"))
	case source.Date, source.DateTime, source.Timestamp:
		return !bytes.HasPrefix(v, []byte("0000-00-00")) && len(v) > 0
	default:
		return !isNo(v)
	}
}

// isNo reports whether v is empty or a word for no.
func isNo(v []byte) bool {
	for _, no := range [...]string{"", "0", "f", "false", "n", "no"} {
		if len(v) == len(no) && bytes.EqualFold(v, []byte(no)) {
			return true
		}
	}
	return false
}

// isZero reports whether the number in v is zero: no digit before the exponent is another.
func isZero(v []byte) bool {
	for _, b := range v {
		switch {
		case b == 'e' || b == 'E':
			return true
		case b >= '1' && b <= '9':
			return false
		}
	}
	return true
}

func allZero(v []byte) bool {
	for _, b := range v {
		if b != 0 {
			return false
		}
	}
	return true
}
