package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Meaning is the part of a shard's configuration that its progress depends on. With another one,
// the ids of the position or the entities of the view would mean something else.
type Meaning struct {
	// Kind is the kind of the stream: a release shard has no view.
	Kind string
	// Table is the physical table with its database, "database.table"; empty for any.
	Table string
	// ID is the column of the ids.
	ID string
	// Key names the columns that identify an entity, in the order in which they are encoded; the id
	// alone where KEY is not set. None stands for any.
	Key []string
}

// Differences returns the settings by which now differs from m; none where the progress still
// holds. Names of columns are compared case-insensitively, as databases compare them.
func (m *Meaning) Differences(now *Meaning) Differences {
	var list Differences
	add := func(setting, was, is string) { list = append(list, Difference{setting, was, is}) }
	if m.Kind != now.Kind {
		add("KIND", m.Kind, now.Kind)
	}
	if m.Table != "" && m.Table != now.Table {
		add("TABLE", m.Table, now.Table)
	}
	if !strings.EqualFold(m.ID, now.ID) {
		add("ID", m.ID, now.ID)
	}
	if len(m.Key) > 0 && !slices.EqualFunc(m.Key, now.Key, strings.EqualFold) {
		add("KEY", strings.Join(m.Key, ","), strings.Join(now.Key, ","))
	}
	return list
}

// Difference is one setting that has changed since progress was made.
type Difference struct{ Setting, Was, Is string }

// Differences are the settings that have changed since progress was made.
type Differences []Difference

func (d Differences) String() string {
	texts := make([]string, len(d))
	for i, one := range d {
		texts[i] = one.Setting + " was " + one.Was + " and is " + one.Is
	}
	return strings.Join(texts, ", ")
}

// Has reports whether a setting has changed.
func (d Differences) Has(setting string) bool {
	return slices.ContainsFunc(d, func(one Difference) bool { return one.Setting == setting })
}

const meaningVersion = 1

// AppendMeaning appends the bytes of the part MeaningPart to dst: version (1 byte), kind, table,
// id, the number of key columns and each of them (texts with their length before them; numbers
// are varints), and the CRC-32C over all before (4 bytes, little endian).
func AppendMeaning(dst []byte, m *Meaning) []byte {
	f := newForm(dst, meaningVersion)
	f.putText(m.Kind)
	f.putText(m.Table)
	f.putText(m.ID)
	f.put(uint64(len(m.Key)))
	for _, column := range m.Key {
		f.putText(column)
	}
	return f.end()
}

// ParseMeaning reads what AppendMeaning wrote. The error wraps ErrDamaged.
func ParseMeaning(b []byte) (*Meaning, error) {
	f := parseForm(b, meaningVersion)
	m := &Meaning{Kind: f.text(), Table: f.text(), ID: f.text()}
	for range f.count() {
		m.Key = append(m.Key, f.text())
	}
	if !f.complete() {
		return nil, fmt.Errorf("%w: a meaning of %d bytes", ErrDamaged, len(b))
	}
	return m, nil
}

// LoadMeaning returns the meaning of a shard's progress, nil where it has none.
func LoadMeaning(ctx context.Context, s Store, key Key) (*Meaning, error) {
	for part, err := range s.Parts(ctx, key, MeaningPart, 0) {
		if err != nil {
			return nil, err
		}
		m, err := ParseMeaning(part.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the meaning of shard %s of %s: %w", key.Shard, key.Stream, err)
		}
		return m, nil
	}
	return nil, nil
}

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
