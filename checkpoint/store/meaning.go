package store

import (
	"context"
	"fmt"
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
