package event

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"bridge/source"
)

// appendEntity appends the injective encoding of the entity key.
func (e *Encoder) appendEntity(dst []byte, values [][]byte) []byte {
	for _, i := range e.plan.columns.Key {
		dst = appendKeyValue(dst, values[i])
	}
	return dst
}

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

// KeyText returns the text of the key of entity, as Event.Key has it. It fails for what KeyValues
// does not take.
func (e *Encoder) KeyText(entity []byte) (string, error) {
	values, err := e.KeyValues(entity, e.keys[:0])
	if err != nil {
		return "", err
	}
	e.keys = values
	var text []byte
	for n, i := range e.plan.columns.Key {
		if n > 0 {
			text = append(text, keySeparator)
		}
		text = e.appendKeyColumn(text, e.plan.columns.List[i].Kind, values[n])
	}
	return string(text), nil
}

// KeyOf returns the text of the key of a row of the bound shape, as Event.Key has it.
func (e *Encoder) KeyOf(values [][]byte) string { return string(e.appendKey(nil, values)) }

// appendKeyValue appends a key value to the encoding of an entity: 0 for NULL, else its length plus
// one and its bytes.
func appendKeyValue(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(v))+1)
	return append(dst, v...)
}

// KeyValues appends the values of the key columns in entity, which is as Event.Entity has it, to
// dst: in the order of the key, in the normal form of their columns, nil for NULL. They lie in
// entity. It fails, with dst as long as it was, when entity is not exactly what Append writes for a
// key of as many columns as the bound shape has.
func (e *Encoder) KeyValues(entity []byte, dst [][]byte) ([][]byte, error) {
	if e.plan == nil {
		return dst, errUnbound
	}
	out, rest := dst, entity
	for range e.plan.columns.Key {
		v, n := keyValue(rest)
		if n == 0 {
			return dst, e.entityFault(entity)
		}
		out = append(out, v)
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return dst, e.entityFault(entity)
	}
	return out, nil
}

// entityFault is the error of bytes that are no entity of the bound shape.
func (e *Encoder) entityFault(entity []byte) error {
	return fmt.Errorf("read an entity of %d bytes: it does not hold the values of %d key columns of table %s", len(entity), len(e.plan.columns.Key), e.options.Table)
}

// keyValue returns the first value of entity and how many bytes it takes there; 0 where entity does
// not begin with one. It is the inverse of appendKeyValue: a length in more bytes than it needs is
// refused, so that no two entities hold the same values.
func keyValue(entity []byte) (v []byte, n int) {
	size, n := binary.Uvarint(entity)
	switch {
	case n <= 0, n > 1 && entity[n-1] == 0, size > uint64(len(entity)-n)+1:
		return nil, 0
	case size == 0:
		return nil, n
	}
	end := n + int(size-1)
	return entity[n:end:end], end
}
