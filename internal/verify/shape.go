package verify

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// shape is a list of members and the columns that events with them were made of: those of the table
// now, or others, since columns have come, gone or changed, or FIELDS, EXCLUDE or MASK.
type shape struct {
	// encoder is nil where no events can be made of these members.
	encoder *event.Encoder
	// base are the columns of the table, columns are those of the events. Behind the ones of the
	// table stand members of no column.
	base, columns *source.Columns
	// at has the column of each member, digits how many digits the fraction of a column's values
	// has, -1 for as many as there are. names are kept of the table's members alone.
	at, digits []int
	names      []string
	// strange says that a member of no column is not null, retyped that a column had another type,
	// keyed that the members have the key.
	strange, retyped, keyed bool
}

// schema turns rows of a table into events, and events into rows.
type schema struct {
	Shard
	// domain is that of the events.
	domain string
	// columns, and what follows from them, are set by bind. columnOf finds the column of a member,
	// as its name is now or would be by default.
	columns    *source.Columns
	columnOf   map[string]int
	live, dead *shape
	shapes     map[string]*shape
	// uri, database and table are in every event of the table.
	uri, database, table string
	// operations are those that a type of events may have. plain is the form in which rows are
	// encoded that are compared by their members.
	operations map[string][]event.Op
	plain      event.Form
	lossy      columns

	// raws are the members of the event that was spread last, by column; they are those in members,
	// of the shape now.
	raws    [][]byte
	members []member
	now     *shape
	// Memory that is used again.
	scratch, encoded, rowBody []byte
	rowMembers                []member
}

func newSchema(o Shard, domain string) schema {
	s := schema{Shard: o, domain: domain, operations: make(map[string][]event.Op), plain: event.Form{Format: event.FormatRow, Version: o.Encoder.Version()}}
	for _, op := range []event.Op{event.Added, event.Modified, event.Deleted, event.Published} {
		if kind := o.Encoder.Type(op); kind != "" {
			s.operations[kind] = append(s.operations[kind], op)
		}
	}
	return s
}

const (
	mostShapes = 1000
	// guesses is how many ways there are to read the types of members, from the likeliest on.
	guesses = 3
	// manyShapes is the number of a shape in a fact that has no number of its own.
	manyShapes = 1<<5 - 1
)

// columns are columns of an event, by what does not tell their value: null, or another member. The
// last bit of either half stands for the columns from the 32nd on.
type columns uint64

func bit(column int, null bool) columns {
	if column = min(column, 31); null {
		return 1 << column
	}
	return 1 << (column + 32)
}

var seed = maphash.MakeSeed()

// bind takes over the columns of the table.
func (s *schema) bind(columns *source.Columns) error {
	if s.columns == columns {
		return nil
	}
	if err := s.Encoder.Bind(columns); err != nil {
		return err
	}
	s.columns, s.raws = columns, make([][]byte, len(columns.List))
	s.shapes, s.columnOf = make(map[string]*shape), make(map[string]int)
	// A member with the name that a column has by default may be from before FIELDS or EXCLUDE.
	for i, c := range columns.List {
		s.columnOf[event.MemberName(c.Name)] = i
	}
	shapeOf := func(members []event.Member) *shape {
		v := &shape{encoder: s.Encoder, base: columns, columns: columns}
		for _, m := range members {
			s.columnOf[m.Name] = m.Column
			v.at, v.names = append(v.at, m.Column), append(v.names, m.Name)
		}
		v.complete()
		return v
	}
	s.live, s.dead = shapeOf(s.Encoder.Members(false)), shapeOf(s.Encoder.Members(true))
	// An empty row shows what all events of the shard have in common.
	s.Encoder.As(event.Form{Format: event.FormatEiffel, Version: s.plain.Version})
	defer s.Encoder.As(s.plain)
	_, ev, err := s.Encoder.Append(nil, event.Row{Row: source.Row{ID: 1, Values: make([][]byte, len(columns.List))}, Read: epoch})
	if err != nil {
		return fmt.Errorf("encode an empty row: %w", err)
	}
	var e envelope
	if err := e.readDocument(ev.Body, s.Stream, true); err != nil {
		return fmt.Errorf("read an event of an empty row: %w", err)
	}
	s.uri, s.database, s.table = string(e.uri), string(e.database), string(e.table)
	return nil
}

// complete fills in what follows from the members.
func (v *shape) complete() {
	for len(v.digits) < len(v.columns.List) {
		v.digits = append(v.digits, -1)
	}
	v.keyed = !slices.ContainsFunc(v.columns.Key, func(c int) bool { return c != v.columns.ID && !slices.Contains(v.at, c) })
}

// shapeOf returns the shape of an event by one of the guesses.
func (s *schema) shapeOf(e *envelope, guess int) *shape {
	now := s.live
	if e.reason != "" {
		now = s.dead
	}
	usual := len(e.members) == len(now.names)
	id := strconv.AppendInt(s.scratch[:0], int64(guess), 10)
	for i := range e.members {
		m := &e.members[i]
		name := m.text()
		c, known := s.columnOf[name]
		column := source.Column{}
		if known {
			column = s.columns.List[c]
		} else {
			c = len(s.columns.List)
		}
		written, digits := s.asWritten(column, m.value, guess, c)
		usual = usual && now.names[i] == name && written == column
		id = append(append(append(id, 0), name...), 0, byte(written.Kind), byte(digits))
		if !known && string(m.value) == "null" {
			id = append(id, 'n')
		}
	}
	if s.scratch = id; usual {
		return now
	}
	v := s.shapes[string(id)]
	if v == nil {
		if v = s.newShape(e, guess); len(s.shapes) < mostShapes {
			s.shapes[string(id)] = v
		}
	}
	return v
}

func (s *schema) newShape(e *envelope, guess int) *shape {
	list := *s.columns
	list.List = slices.Clone(list.List)
	v := &shape{base: s.columns, columns: &list}
	v.complete()
	var fields []event.Field
	for i := range e.members {
		m := &e.members[i]
		name := m.text()
		c, known := s.columnOf[name]
		if !known || slices.Contains(v.at, c) {
			v.strange = v.strange || string(m.value) != "null"
			c = len(list.List)
			list.List, v.digits = append(list.List, source.Column{Name: s.columnName(name, guess)}), append(v.digits, -1)
		}
		kind := list.List[c].Kind
		list.List[c], v.digits[c] = s.asWritten(list.List[c], m.value, guess, c)
		v.retyped = v.retyped || kind != 0 && list.List[c].Kind != kind
		v.at, fields = append(v.at, c), append(fields, event.Field{Column: list.List[c].Name, Member: name})
	}
	v.complete()
	if encoder, err := s.Encoder.With(fields, v.columns); err == nil {
		v.encoder = encoder
	}
	return v
}

// columnName guesses the name that the column of a member had.
func (s *schema) columnName(member string, guess int) string {
	name := member
	if guess > 0 {
		var words strings.Builder
		for _, r := range member {
			if unicode.IsUpper(r) {
				words.WriteByte('_')
			}
			words.WriteRune(unicode.ToLower(r))
		}
		name = words.String()
	}
	if slices.ContainsFunc(s.columns.List, func(c source.Column) bool { return strings.EqualFold(c.Name, name) }) {
		// The table has that name for another member.
		return name + "\x00"
	}
	return name
}

// asWritten returns a column, the one with this index, as it was when it made a member, and the
// digits of the fraction of its values then, -1 where they do not matter. What meta.time is taken
// from was a time.
func (s *schema) asWritten(c source.Column, v []byte, guess, index int) (source.Column, int) {
	unknown := c.Kind == 0
	isTime := c.Kind == source.DateTime || c.Kind == source.Timestamp
	switch {
	case len(v) == 0 || v[0] == 'n' || v[0] == 't' || v[0] == 'f' || c.Kind == source.JSON:
	case v[0] == '{' || v[0] == '[':
		c.Kind, c.Mask = source.JSON, ""
	case v[0] != '"':
		whole := !bytes.ContainsAny(v, ".eE")
		if c.Kind != source.Bit && c.Kind != source.Float && (c.Kind != source.Int || !whole) {
			c.Kind, c.Mask = source.Float, ""
			if whole {
				c.Kind = source.Int
			}
		}
	case isMoment(v):
		return asMoment(c, v, guess)
	case isTime && len(v) == len(`"2006-01-02"`):
		c.Kind, c.Precision = source.Date, 0
	case index == s.columns.Created || index == s.columns.Modified:
	case unknown || c.Kind == source.Int || c.Kind == source.Float || c.Kind == source.Bit || isTime,
		c.Kind == source.Date && len(v) != len(`"2006-01-02"`), c.Kind == source.Binary && guess > 0:
		c.Kind, c.Precision = source.Text, 0
	case c.Kind == source.Decimal:
		if point := bytes.IndexByte(v, '.'); point >= 0 {
			return c, len(v) - point - len(`."`)
		}
		return c, 0
	}
	return c, -1
}

// isMoment reports whether a member is a string like "2006-01-02T15:04:05.000Z".
func isMoment(v []byte) bool {
	return len(v) >= len(`"2006-01-02T15:04:05Z"`) && v[5] == '-' && v[8] == '-' && v[11] == 'T' && v[14] == ':' && v[len(v)-2] == 'Z'
}

// asMoment is asWritten for such a string. A text may look like one, so that is the first guess.
func asMoment(c source.Column, v []byte, guess int) (source.Column, int) {
	switch {
	case (c.Kind == source.DateTime || c.Kind == source.Timestamp) && guess < 2:
	case c.Kind == source.DateTime || c.Kind != source.Timestamp && guess == 2:
		c.Kind = source.Timestamp
	case c.Kind == source.Timestamp || guess == 1:
		c.Kind = source.DateTime
	default:
		if c.Kind != source.Text {
			c.Kind, c.Precision = source.Text, 0
		}
		return c, -1
	}
	if c.Precision = 0; v[20] == '.' {
		c.Precision = len(v) - len(`"2006-01-02T15:04:05.Z"`)
	}
	return c, c.Precision
}

// invert turns the members of an event into values. What is not a member is NULL, save the id,
// which is data.row's. exact is false where they do not tell all, ok where they cannot be such
// values.
func (s *schema) invert(v *shape, e *envelope) (values [][]byte, exact, ok bool) {
	values, exact = make([][]byte, len(v.columns.List)), true
	for i, m := range e.members {
		value, sure, fits := event.Invert(v.columns.List[v.at[i]], s.Zone, m.value)
		if !fits {
			return nil, false, false
		}
		values[v.at[i]], exact = value, exact && sure
	}
	id := strconv.AppendUint(nil, e.row, 10)
	if values[v.columns.ID] == nil {
		values[v.columns.ID] = id
	}
	return values, exact, bytes.Equal(values[v.columns.ID], id)
}

// row returns a row of the table as one that its events of this shape were made of; ok is false
// after the columns have changed.
func (v *shape) row(row source.Row, columns *source.Columns) (then source.Row, ok bool) {
	if v.encoder == nil || v.base != columns {
		return row, false
	}
	then = row
	then.Values = make([][]byte, len(v.columns.List))
	for c, value := range row.Values {
		then.Values[c] = shorten(value, v.digits[c])
	}
	return then, true
}

// shorten cuts zeros off the fraction of a number or a time, so that so many digits are left.
func shorten(value []byte, digits int) []byte {
	point := bytes.IndexByte(value, '.')
	if digits < 0 || point < 0 || len(value)-point-1 <= digits {
		return value
	}
	end := point + 1 + digits
	if len(bytes.Trim(value[end:], "0")) > 0 {
		return value
	}
	if digits == 0 {
		end = point
	}
	return value[:end]
}

// spread puts members into s.raws, by column.
func (s *schema) spread(v *shape, members []member) {
	clear(s.raws)
	s.members, s.now = members, v
	for i, c := range v.at {
		if c < len(s.raws) {
			s.raws[c] = members[i].value
		}
	}
}

// encode makes the event of a row of the table and spreads its members, which lie in s.rowBody.
func (s *schema) encode(row event.Row) (event.Event, error) {
	buf, ev, err := s.Encoder.Append(s.rowBody[:0], row)
	if err != nil {
		return ev, err
	}
	s.rowBody, s.rowMembers = buf, membersOf(s.rowMembers[:0], ev.Body)
	v := s.live
	if ev.Op == event.Deleted {
		v = s.dead
	}
	s.spread(v, s.rowMembers)
	// Which columns of a row its event does not tell shows which events cannot be judged.
	for c, raw := range s.raws {
		if raw == nil || c == s.columns.ID {
			continue
		}
		got, exact, ok := event.Invert(s.columns.List[c], s.Zone, raw)
		switch {
		case got == nil && row.Values[c] != nil:
			s.lossy |= bit(c, true)
		case exact && ok && !bytes.Equal(got, row.Values[c]):
			s.lossy |= bit(c, false)
		}
	}
	return ev, nil
}

// present returns the columns that could explain why the event that was spread last does not fit.
func (s *schema) present() (of columns) {
	for c, raw := range s.raws {
		if raw != nil {
			of |= bit(c, string(raw) == "null")
		}
	}
	return of
}

// stateOf digests what is compared of the event that was spread last: neither the id nor CREATED
// and MODIFIED, and no nulls. A member of no column is part of the state.
func (s *schema) stateOf() uint64 {
	d := s.scratch[:0]
	for c, v := range s.raws {
		if v == nil || string(v) == "null" || c == s.columns.ID || c == s.columns.Created || c == s.columns.Modified {
			continue
		}
		d = strconv.AppendInt(d, int64(c), 10)
		d = append(append(append(d, ':'), v...), 0)
	}
	for i, m := range s.members {
		if s.now.at[i] >= len(s.raws) && string(m.value) != "null" {
			d = append(append(append(d, m.name...), m.value...), 0)
		}
	}
	s.scratch = d
	return maphash.Bytes(seed, d)
}

// bodyOf digests members.
func (s *schema) bodyOf(members []member) uint64 {
	d := s.scratch[:0]
	for _, m := range members {
		d = append(append(append(d, m.name...), m.value...), 0)
	}
	s.scratch = d
	return maphash.Bytes(seed, d)
}

// adopt returns a row of another table of the stream as it would stand in this one, its event
// spread. ok is false where the row says something that this table has no column for.
func (s *schema) adopt(from *schema, row event.Row) (adopted event.Row, ok bool) {
	adopted = row
	adopted.Values = make([][]byte, len(s.columns.List))
	for c, v := range row.Values {
		to := slices.IndexFunc(s.columns.List, func(own source.Column) bool { return strings.EqualFold(own.Name, from.columns.List[c].Name) })
		switch {
		case to >= 0:
			adopted.Values[to] = v
		case v != nil && slices.Contains(from.live.at, c) && c != from.columns.ID && c != from.columns.Created && c != from.columns.Modified:
			return adopted, false
		}
	}
	_, err := s.encode(adopted)
	return adopted, err == nil
}
