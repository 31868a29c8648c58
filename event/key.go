package event

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"bridge/source"
)

// appendKey appends the text of the entity key: byte strings in base64, bits as a number, all other
// values as they are.
func (e *Encoder) appendKey(dst []byte, values [][]byte) []byte {
	for n, i := range e.plan.columns.Key {
		if n > 0 {
			dst = append(dst, keySeparator)
		}
		dst = e.appendKeyColumn(dst, e.plan.columns.List[i].Kind, values[i])
	}
	return dst
}

func (e *Encoder) appendKeyColumn(dst []byte, kind source.Kind, v []byte) []byte {
	switch {
	case v == nil:
	case kind == source.Binary:
		// The byte in front keeps an empty text from being nil, which is NULL.
		e.keyText = base64.StdEncoding.AppendEncode(append(e.keyText[:0], 0), v)
		v = e.keyText[1:]
	case kind == source.Bit:
		if bits, ok := appendBits(append(e.keyText[:0], 0), v); ok {
			e.keyText, v = bits, bits[1:]
		}
	}
	return AppendKeyText(dst, v)
}

// KeyOf returns the text of the key of a row of the bound shape, as Event.Key has it.
func (e *Encoder) KeyOf(values [][]byte) string { return string(e.appendKey(nil, values)) }

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
		return dst, e.keyFault(key)
	}
	out, rest := dst, key
	for _, i := range columns {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte{keySeparator})
		v, ok := parseKeyText(part)
		if ok {
			v, ok = e.keyValue(e.plan.columns.List[i].Kind, v)
		}
		if !ok {
			return dst, e.keyFault(key)
		}
		out = append(out, v)
	}
	return out, nil
}

// keyFault is the error of a text that is not a key of the bound shape.
func (e *Encoder) keyFault(key []byte) error {
	return fmt.Errorf("read the key %.80q: it does not hold the values of %d key columns of table %s", key, len(e.plan.columns.Key), e.options.Table)
}

// keyValue returns the value whose text in a key is text. It is the inverse of appendKeyColumn, and
// refuses what that does not write.
func (e *Encoder) keyValue(kind source.Kind, text []byte) (v []byte, ok bool) {
	switch {
	case text == nil:
		return nil, true
	case kind == source.Binary:
		v, err := base64.StdEncoding.AppendDecode([]byte{}, text)
		e.keyText = base64.StdEncoding.AppendEncode(e.keyText[:0], v)
		// Other texts decode, too: with line breaks, or with bits that are left over.
		return v, err == nil && bytes.Equal(e.keyText, text)
	case kind == source.Bit:
		return e.keyBits(text)
	}
	return text, true
}

// keyBits returns the bits with a text. More than 64 of them are their own text.
func (e *Encoder) keyBits(text []byte) (v []byte, ok bool) {
	if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		v = binary.BigEndian.AppendUint64(nil, n)
		v = append([]byte{}, v[min(7, len(v)-len(bytes.TrimLeft(v, "\x00"))):]...)
		e.keyText = strconv.AppendUint(e.keyText[:0], n, 10)
		return v, bytes.Equal(e.keyText, text)
	}
	_, short := appendBits(e.keyText[:0], text)
	return text, !short
}
