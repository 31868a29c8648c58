package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"example.org/bridge/internal/form"
	"example.org/bridge/source"
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
// holds. The case of ASCII letters does not count in names of columns. That of others does, as they
// are two columns in SQLite.
func (m *Meaning) Differences(now *Meaning) Differences {
	var list Differences
	add := func(setting, was, is string) { list = append(list, Difference{setting, was, is}) }
	if m.Kind != now.Kind {
		add("KIND", m.Kind, now.Kind)
	}
	if m.Table != "" && m.Table != now.Table {
		add("TABLE", m.Table, now.Table)
	}
	if !source.ASCIICase.Same(m.ID, now.ID) {
		add("ID", m.ID, now.ID)
	}
	if len(m.Key) > 0 && !slices.EqualFunc(m.Key, now.Key, source.ASCIICase.Same) {
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

// The first bytes of the parts.
const (
	meaningVersion = 1
	schemaVersion  = 1
)

// AppendMeaning appends the bytes of the part MeaningPart to dst, in the words of [form]: version,
// kind, table, id, the number of key columns and each of them, and the seal.
func AppendMeaning(dst []byte, m *Meaning) []byte {
	b := []byte{meaningVersion}
	for _, text := range []string{m.Kind, m.Table, m.ID} {
		b = form.AppendText(b, text)
	}
	b = form.AppendUints(b, uint64(len(m.Key)))
	for _, column := range m.Key {
		b = form.AppendText(b, column)
	}
	return append(dst, form.Seal(b)...)
}

// parseMeaning reads what AppendMeaning wrote. The error wraps ErrDamaged.
func parseMeaning(b []byte) (*Meaning, error) {
	f := form.Open(b, meaningVersion)
	m := &Meaning{Kind: f.Text(), Table: f.Text(), ID: f.Text()}
	for range f.Count() {
		m.Key = append(m.Key, f.Text())
	}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("%w: a meaning: %w", ErrDamaged, err)
	}
	return m, nil
}

// LoadMeaning returns the meaning of a shard's progress, nil where it has none.
func LoadMeaning(ctx context.Context, s Store, key Key) (*Meaning, error) {
	return loadPart(ctx, s, key, MeaningPart, parseMeaning)
}

// loadPart returns the only part of a kind, nil if there is none.
func loadPart[T any](ctx context.Context, s Store, key Key, kind Kind, parse func([]byte) (*T, error)) (*T, error) {
	for part, err := range s.Parts(ctx, key, kind, 0) {
		if err != nil {
			return nil, err
		}
		v, err := parse(part.Bytes)
		if err != nil {
			return nil, fmt.Errorf("shard %s of %s: %w", key.Shard, key.Stream, err)
		}
		return v, nil
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

// AppendSchema appends the bytes of the part SchemaPart to dst, in the words of [form]: version,
// the numbers of meta.version, the hash (6 bytes), epoch, seq, the number of members, their names
// and types, and the seal.
func AppendSchema(dst []byte, s *Schema) []byte {
	b := []byte{schemaVersion}
	for _, n := range s.Version {
		b = form.AppendUints(b, uint64(n))
	}
	b = form.AppendUints(append(b, s.Hash[:]...), s.Epoch, s.Seq, uint64(len(s.Members)))
	for _, m := range s.Members {
		b = form.AppendText(form.AppendText(b, m.Name), m.Type)
	}
	return append(dst, form.Seal(b)...)
}

// parseSchema reads what AppendSchema wrote. The error wraps ErrDamaged.
func parseSchema(b []byte) (*Schema, error) {
	f, s := form.Open(b, schemaVersion), &Schema{}
	for i := range s.Version {
		n := f.Uint()
		if s.Version[i] = uint32(n); n > math.MaxUint32 {
			f.Fail("a number out of bounds")
		}
	}
	copy(s.Hash[:], f.Bytes(uint64(len(s.Hash))))
	s.Epoch, s.Seq = f.Uint(), f.Uint()
	for range f.Count() {
		s.Members = append(s.Members, SchemaMember{f.Text(), f.Text()})
	}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("%w: a schema: %w", ErrDamaged, err)
	}
	return s, nil
}

// LoadSchema returns what the events of a shard looked like, nil where the store does not know it.
func LoadSchema(ctx context.Context, s Store, key Key) (*Schema, error) {
	return loadPart(ctx, s, key, SchemaPart, parseSchema)
}
