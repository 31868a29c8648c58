package verify

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"

	"bridge/event"
	"bridge/source"
)

// schema turns rows of a shard into events, and events into rows.
type schema struct {
	Shard
	// domain is that of the events.
	domain string
	// The shape of the events, set by each bind.
	columns *source.Columns
	byName  map[string]int
	// former has the columns by the members that they have by default, where FIELDS or EXCLUDE say
	// something else.
	former    map[string]int
	live      []string
	dead      []string
	operation map[string][]event.Op
	// plain is the form in which rows are encoded that are compared by their members, forms are
	// those that messages have.
	plain event.Form
	forms []form
	// variants are those of the columns, by what tells them apart.
	variants map[string]*variant
	// uri, database and table are in every event of the shard.
	uri, database, table string
	lossy                lossy
	// columnsFrom has the columns of other tables of the scope, see columnsOf.
	columnsFrom map[*source.Columns][]int

	scratch
}

// scratch is memory that a shard uses again.
type scratch struct {
	values [][]byte
	raws   [][]byte
	buf    []byte
	// spare is for an event while another one is spread in buf.
	spare  []byte
	digest []byte
	row    envelope
	// judged is the variant of the event that was judged last, with its values.
	judged judged
}

// identity is what tells whose an event is.
func identity(uri, database, table []byte) string {
	return string(uri) + "\x00" + string(database) + "\x00" + string(table)
}

var seed1, seed2 = maphash.MakeSeed(), maphash.MakeSeed()

// key tells entities of a stream apart.
type key [16]byte

// keyNull stands for NULL in what a key digests: JSON has no control characters.
const keyNull = 1

func newSchema(o Shard, domain string) schema {
	s := schema{Shard: o, domain: domain, operation: make(map[string][]event.Op)}
	// What a row looks like is read from its event. That of a message is encoded in its format.
	s.row.facts = o.Kind == event.Release
	s.plain = event.Form{Format: event.FormatEiffel, Version: o.Encoder.Version()}
	s.write(s.plain)
	for _, op := range []event.Op{event.Added, event.Modified, event.Deleted, event.Published} {
		if kind := o.Encoder.Type(op); kind != "" {
			s.operation[kind] = append(s.operation[kind], op)
		}
	}
	return s
}

// bind takes over the shape of the table's columns.
func (s *schema) bind(columns *source.Columns) error {
	if s.columns == columns {
		return nil
	}
	if err := s.Encoder.Bind(columns); err != nil {
		return err
	}
	s.columns, s.byName, s.live, s.dead, s.columnsFrom = columns, make(map[string]int), nil, nil, nil
	s.former, s.variants = make(map[string]int), make(map[string]*variant)
	s.values, s.raws = make([][]byte, len(columns.List)), make([][]byte, len(columns.List))
	for _, m := range s.Encoder.Members(false) {
		s.byName[m.Name] = m.Column
		s.live = append(s.live, m.Name)
	}
	for i, c := range columns.List {
		if name := event.MemberName(c.Name); !slices.Contains(s.live, name) {
			s.former[name] = i
		}
	}
	for _, m := range s.Encoder.Members(true) {
		s.dead = append(s.dead, m.Name)
	}
	return s.probe()
}

// probe encodes an empty row to learn what all events of the shard have in common.
func (s *schema) probe() error {
	clear(s.values)
	buf, ev, err := s.Encoder.Append(s.buf[:0], event.Row{Row: source.Row{ID: 1, Values: s.values}, Read: epoch})
	if err != nil {
		return fmt.Errorf("encode an empty row: %w", err)
	}
	s.buf = buf
	if err := s.row.parse(ev.Body); err != nil {
		return fmt.Errorf("read an event of an empty row: %w", err)
	}
	s.uri, s.database, s.table = string(event.AppendURI(nil, string(s.row.domain), s.Stream)), string(s.row.database), string(s.row.table)
	return nil
}

// spread puts the members of an event into s.raws, by column, and reports whether they are those
// that the encoder would write, in that order, and whether there is one of no column.
func (s *schema) spread(e *envelope, names []string) (same, unknown bool) {
	clear(s.raws)
	same = len(e.members) == len(names)
	for i, m := range e.members {
		name, _ := unquote(m.name)
		column, ok := s.columnOf(string(name))
		if !ok {
			same, unknown = false, unknown || string(m.value) != "null"
			continue
		}
		same = same && names[i] == string(name)
		s.raws[column] = m.value
	}
	return same, unknown
}

// columnOf returns the column of a member, as its name is now or would be by default.
func (s *schema) columnOf(member string) (column int, ok bool) {
	if column, ok = s.byName[member]; !ok {
		column, ok = s.former[member]
	}
	return column, ok
}

// keyOf returns the key of the event that was spread last; ok is false when it lacks a member of
// the key.
func (s *schema) keyOf(row uint64) (k key, ok bool) {
	d := s.digest[:0]
	for _, c := range s.columns.Key {
		v := s.raws[c]
		switch {
		case c == s.columns.ID:
			d = strconv.AppendUint(d, row, 10)
		case v == nil:
			return k, false
		case v[0] == '"':
			// Another table may have the same text as a number.
			d = append(d, v[1:len(v)-1]...)
		case v[0] == 'n':
			d = append(d, keyNull)
		default:
			d = append(d, v...)
		}
		d = append(d, 0)
	}
	s.digest = d
	binary.BigEndian.PutUint64(k[:8], maphash.Bytes(seed1, d))
	binary.BigEndian.PutUint64(k[8:], maphash.Bytes(seed2, d))
	return k, true
}

// keyFrom returns the key of an entity by that of its message, which is a former one perhaps.
func (s *schema) keyFrom(text []byte, row uint64) (k key, ok bool) {
	values, err := event.ParseKey(text)
	if err != nil || len(values) != len(s.columns.Key) {
		return k, false
	}
	for i, c := range s.columns.Key {
		if s.raws[c], err = json.Marshal(string(values[i])); err != nil || values[i] == nil {
			s.raws[c] = []byte("null")
		}
	}
	return s.keyOf(row)
}

// stateOf digests what is compared of the event that was spread last: neither the id nor CREATED
// and MODIFIED, and no nulls. A member of no column is part of the state.
func (s *schema) stateOf(e *envelope) uint64 {
	d := s.digest[:0]
	for c, v := range s.raws {
		if v == nil || string(v) == "null" || c == s.columns.ID || c == s.columns.Created || c == s.columns.Modified {
			continue
		}
		d = strconv.AppendInt(d, int64(c), 10)
		d = append(append(append(d, ':'), v...), 0)
	}
	for _, m := range e.members {
		name, _ := unquote(m.name)
		if _, ok := s.columnOf(string(name)); !ok && string(m.value) != "null" {
			d = append(append(append(d, name...), m.value...), 0)
		}
	}
	s.digest = d
	return maphash.Bytes(seed1, d)
}

// keyText returns the key of the event that was spread last, in the form that all keys have; a
// value that the event does not tell is left empty.
func (s *schema) keyText(row uint64) string {
	values := make([][]byte, len(s.columns.List))
	for _, c := range s.columns.Key {
		if c == s.columns.ID {
			values[c] = strconv.AppendUint(nil, row, 10)
		} else if value, _, ok := event.Invert(s.columns.List[c], s.Zone, s.raws[c]); ok {
			values[c] = value
		} else {
			values[c] = []byte{}
		}
	}
	return s.Encoder.KeyOf(values)
}
