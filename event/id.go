package event

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"

	"example.org/bridge/internal/texts"
	"example.org/bridge/source"
)

// uuidLen is the length of the text of a UUID.
const uuidLen = 36

// namespace is the UUID under which every meta.id is made (RFC 9562, section 5.5):
// 387ab998-0f04-4ea2-9706-851a3360596f. It must never change: every event would get another id.
var namespace = [16]byte{0x38, 0x7a, 0xb9, 0x98, 0x0f, 0x04, 0x4e, 0xa2, 0x97, 0x06, 0x85, 0x1a, 0x33, 0x60, 0x59, 0x6f}

// keepName is how many bytes of memory are kept for the next id.
const keepName = 1 << 20

// identity makes the ids of one shard's events. It reuses its memory and serves one goroutine.
type identity struct {
	name []byte
	// fixed is how much of name is the same for every event.
	fixed int
	// entity is the memory of a key.
	entity []byte
	// texts holds ids as text.
	texts texts.Texts
}

func newIdentity(stream, shard string) *identity {
	name := append([]byte(nil), namespace[:]...)
	name = appendSized(name, stream)
	name = appendSized(name, shard)
	return &identity{name: name, fixed: len(name)}
}

// id returns the UUID of version 5 of a fact, whose key has the values of these columns.
//
// Invariant 4: every part is either of fixed size or led by its length, so that two different facts
// never hash the same bytes, and nothing that differs between two reads of the same fact is a part.
func (s *identity) id(columns []int, f *finding) [16]byte {
	// The values of the key, each led by 0 for NULL, else by its length plus one.
	s.entity = s.entity[:0]
	for _, i := range columns {
		if v := f.row.Values[i]; v == nil {
			s.entity = append(s.entity, 0)
		} else {
			s.entity = append(binary.AppendUvarint(s.entity, uint64(len(v))+1), v...)
		}
	}
	name := appendSized(s.name[:s.fixed], s.entity)
	if cap(s.entity) > keepName {
		s.entity = nil
	}
	op := f.kind.op
	if op == Deleted && f.reason == filtered {
		// The state of a row does not tell it from a tombstone.
		op = filtered
	}
	name = binary.BigEndian.AppendUint64(name, f.row.ID)
	name = appendSized(name, op)
	name = append(name, f.state[:]...)
	name = appendSized(name, f.row.Predecessor)
	// uuid.NewSHA1 returns the same and allocates three times an event.
	sum := sha1.Sum(name)
	if s.name = name[:s.fixed]; cap(name) > keepName {
		s.name = append([]byte(nil), s.name...)
	}
	id := [16]byte(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

// appendSized appends text led by its length.
func appendSized[T []byte | string | Op](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// appendUUID appends the text of a UUID in lower case.
func appendUUID(dst []byte, id [16]byte) []byte {
	dst = hex.AppendEncode(dst, id[:4])
	for _, part := range [...][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		dst = hex.AppendEncode(append(dst, '-'), part)
	}
	return dst
}

// FormatID returns the text of a meta.id, empty for zero, which stands for none.
func FormatID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return string(appendUUID(make([]byte, 0, uuidLen), id))
}

// ParseID is the inverse of FormatID: it takes a UUID in lower case, as meta.id is, and the empty
// text as zero.
func ParseID(text string) ([16]byte, error) {
	if text == "" {
		return [16]byte{}, nil
	}
	id, err := uuid.Parse(text)
	var form [uuidLen]byte
	switch {
	case err != nil || string(appendUUID(form[:0], id)) != text:
		return [16]byte{}, fmt.Errorf("%.40q is not a meta.id: it is not a UUID in lower case", text)
	case id == uuid.Nil:
		return [16]byte{}, fmt.Errorf("%q is not a meta.id: it is nil", text)
	}
	return id, nil
}

// Digest is what a view compares to decide whether a row is news.
type Digest struct {
	// Key is the key of the row's event, in memory of the encoder: valid until the next call of any
	// of its methods.
	Key []byte
	// Sum is the digest of the row's event.
	Sum [16]byte
	// Deleted says that the row's event is a deleted one. It is news of an entity alone that was
	// published. Silent says that the row does not match the condition of the stream.
	// Keyless says that the row has NULL in a column that makes it the single row of its key: it is
	// no entity, and no event.
	// Stale says that the row counts as one that is not there: it is Silent, and deletes nothing.
	Deleted, Silent, Keyless, Stale bool
}

// StopsOnBad reports whether values that an event cannot hold stop the stream.
func (e *Encoder) StopsOnBad() bool { return e.options.BadValue == StopOnBad }

// Digest returns the Key, Digest and Op that the event of a row would have, without rendering
// the event. The row must have the shape of the last Bind.
func (e *Encoder) Digest(row source.Row) (Digest, error) {
	if err := e.checkShape(row); err != nil {
		return Digest{}, err
	}
	const keepBytes = 1 << 20
	if cap(e.key) > keepBytes {
		e.key = nil
	}
	e.key = e.texts.append(e.key[:0], e.plan.columns, row.Values)
	d := Digest{Key: e.key, Deleted: e.plan.isDeleted(row.Values, &e.options)}
	d.Sum, e.digested = e.plan.digest(e.digested, row.Values)
	if (row.Filtered || row.Stale) && e.options.Kind == Capability {
		d.Deleted, d.Silent, d.Stale = true, true, row.Stale
	}
	if e.options.Kind == Capability && e.plan.columns.Keyless(row.Values) >= 0 {
		d.Deleted, d.Silent, d.Keyless = true, true, true
	}
	return d, nil
}
