package store

import (
	"context"
	"fmt"
	"math"
)

// Schema is what the events of a shard looked like when it published last: those that the bus has
// acknowledged, or that were read there.
type Schema struct {
	// Version holds the numbers of their meta.version.
	Version [3]uint32
	// Hash tells their members and types from others.
	Hash [6]byte
	// Members are these, in the order of their names; none where the bus alone told the hash.
	Members []SchemaMember
	// Epoch and Seq are the stamp of a message that is so: what older ones say does not count.
	Epoch, Seq uint64
}

// SchemaMember is a member of events and the type of its values.
type SchemaMember struct{ Name, Type string }

const schemaVersion = 1

// AppendSchema appends the bytes of the part SchemaPart to dst: version (1 byte), the numbers of
// the events' version (varints), the hash (6 bytes), epoch and seq (varints), the number of members
// (a varint), name and type of each (texts with their length before them), and the CRC-32C over all
// before (4 bytes, little endian).
func AppendSchema(dst []byte, s *Schema) []byte {
	f := newForm(dst, schemaVersion)
	for _, n := range s.Version {
		f.put(uint64(n))
	}
	f.bytes = append(f.bytes, s.Hash[:]...)
	f.put(s.Epoch)
	f.put(s.Seq)
	f.put(uint64(len(s.Members)))
	for _, m := range s.Members {
		f.putText(m.Name)
		f.putText(m.Type)
	}
	return f.end()
}

// ParseSchema reads what AppendSchema wrote. The error wraps ErrDamaged.
func ParseSchema(b []byte) (*Schema, error) {
	f, s := parseForm(b, schemaVersion), &Schema{}
	for i := range s.Version {
		n := f.number()
		f.bad = f.bad || n > math.MaxUint32
		s.Version[i] = uint32(n)
	}
	copy(s.Hash[:], f.next(uint64(len(s.Hash))))
	s.Epoch, s.Seq = f.number(), f.number()
	for range f.count() {
		s.Members = append(s.Members, SchemaMember{f.text(), f.text()})
	}
	if !f.complete() {
		return nil, fmt.Errorf("%w: a schema of %d bytes", ErrDamaged, len(b))
	}
	return s, nil
}

// LoadSchema returns what the events of a shard looked like, nil where the store does not know it.
func LoadSchema(ctx context.Context, s Store, key Key) (*Schema, error) {
	for part, err := range s.Parts(ctx, key, SchemaPart, 0) {
		if err != nil {
			return nil, err
		}
		schema, err := ParseSchema(part.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the schema of shard %s of %s: %w", key.Shard, key.Stream, err)
		}
		return schema, nil
	}
	return nil, nil
}
