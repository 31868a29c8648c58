package checkpoint

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Meaning is the part of a shard's configuration that its saved state depends on. With another one,
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

// Differences returns the settings by which now differs from m; none where the saved state still
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

// Difference is one setting that has changed since a state was saved.
type Difference struct{ Setting, Was, Is string }

// Differences are the settings that have changed since a state was saved.
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

// meaningVersion is the version that AppendMeaning writes.
const meaningVersion = 1

// AppendMeaning appends the form in which stores keep m to dst and returns the extended dst. The
// form is, in the terms of AppendState:
//
//	version    1 byte, 1
//	kind       text
//	table      text
//	id         text
//	key        count u, then each: text
//	checksum   CRC-32C over all before, 4 bytes, little endian
func AppendMeaning(dst []byte, m *Meaning) []byte {
	start := len(dst)
	dst = append(dst, meaningVersion)
	for _, text := range []string{m.Kind, m.Table, m.ID} {
		dst = appendText(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Key)))
	for _, column := range m.Key {
		dst = appendText(dst, column)
	}
	return appendChecksum(dst, start)
}

// DecodeMeaning reads what AppendMeaning wrote. It keeps no reference to b. The error wraps
// ErrCorrupt, or ErrNewer when a newer version wrote b.
func DecodeMeaning(b []byte) (*Meaning, error) {
	_, r, err := open("meaning", b, meaningVersion)
	if err != nil {
		return nil, err
	}
	m := &Meaning{Kind: r.text(), Table: r.text(), ID: r.text()}
	for range r.count(1) {
		m.Key = append(m.Key, r.text())
	}
	if err := r.close("meaning", b); err != nil {
		return nil, err
	}
	return m, nil
}
