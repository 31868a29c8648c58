package event

import (
	"encoding/base64"
	"encoding/binary"

	"bridge/source"
)

// appendEntity appends the injective encoding of the entity key.
func (e *Encoder) appendEntity(dst []byte, values [][]byte) []byte {
	for _, i := range e.plan.columns.Key {
		dst = appendKeyValue(dst, values[i])
	}
	return dst
}

// appendKey appends the entity key for people: its values joined by '+', byte strings in base64, bits as a number.
func (e *Encoder) appendKey(dst []byte, values [][]byte) []byte {
	for n, i := range e.plan.columns.Key {
		if n > 0 {
			dst = append(dst, '+')
		}
		dst = appendKeyText(dst, e.plan.columns.List[i].Kind, values[i])
	}
	return dst
}

// appendKeyValue appends a key value to the encoding of an entity: 0 for NULL, else its length plus one and its bytes.
func appendKeyValue(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(v))+1)
	return append(dst, v...)
}

// appendKeyText appends a key value as people read it; NULL is empty.
func appendKeyText(dst []byte, kind source.Kind, v []byte) []byte {
	switch kind {
	case source.Binary:
		return base64.StdEncoding.AppendEncode(dst, v)
	case source.Bit:
		if v != nil {
			dst, _ = appendBits(dst, v)
		}
		return dst
	default:
		return append(dst, v...)
	}
}
