package verify

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

type schema struct {
	Shard
	// columns, and what follows from them, are set by bind. columnOf finds the column of a member,
	// as its name is now or would be by default.
	columns  *source.Columns
	columnOf map[string]int
	// live and dead are the columns of the members of events, in the order of these, names the
	// members by column.
	live, dead []int
	names      []string
	// operations are the possible operations of a type of events. plain is the form in which rows
	// are encoded that are compared by their members.
	operations map[string][]event.Op
	plain      event.Form
	lossy      columns

	// row are the members of the row that was encoded last.
	row body
	// Memory that is used again.
	scratch, encoded, rowBody []byte
}

// body are the members of an event with their columns: indexes in the table, or from its number of
// columns on for members of no column.
type body struct {
	at      []int
	members []event.RawMember
}

func newSchema(o Shard) schema {
	o.Zone = cmp.Or(o.Zone, time.UTC)
	s := schema{Shard: o, operations: make(map[string][]event.Op), plain: event.Form{Format: event.FormatRow, Version: o.Encoder.Version()}}
	for _, op := range []event.Op{event.Added, event.Modified, event.Deleted, event.Published} {
		if kind := o.Encoder.Type(op); kind != "" {
			s.operations[kind] = append(s.operations[kind], op)
		}
	}
	return s
}

// columns are columns of an event, by what does not tell their value: null, or another member. The
// last bit of either half stands for the columns from the 32nd on.
type columns uint64

// nulls are those that are null, filled the others.
const nulls, filled columns = 1<<32 - 1, (1<<32 - 1) << 32

func bit(column int, null bool) columns {
	if column = min(column, 31); null {
		return 1 << column
	}
	return 1 << (column + 32)
}

var seed = maphash.MakeSeed()

func (s *schema) bind(columns *source.Columns) error {
	if s.columns == columns {
		return nil
	}
	if err := s.Encoder.Bind(columns); err != nil {
		return err
	}
	s.columns, s.columnOf, s.live, s.dead = columns, make(map[string]int), nil, nil
	s.names = make([]string, len(columns.List))
	// A member with the name that a column has by default may be from before FIELDS or EXCLUDE.
	for i, c := range columns.List {
		s.columnOf[event.MemberName(c.Name)] = i
	}
	for _, m := range s.Encoder.Members(false) {
		s.columnOf[m.Name], s.names[m.Column] = m.Column, m.Name
		s.live = append(s.live, m.Column)
	}
	for _, m := range s.Encoder.Members(true) {
		s.dead = append(s.dead, m.Column)
	}
	s.Encoder.As(s.plain)
	return nil
}

// guesses is how many ways there are to read the types of members, from the likeliest on.
const guesses = 3

// reading is one way in which the members of an event may have been made of columns: those of the
// table, or others, since columns have come, gone or changed, or FIELDS, EXCLUDE or MASK.
type reading struct {
	body
	// columns are the columns of the members as they were by then. values are those of the columns
	// of the table, NULL where they are no members, and behind them those of others.
	columns []source.Column
	values  [][]byte
	// exact says that the members tell the values, fits that these columns make such members.
	exact, fits bool
	// usual says that the event has the members that the table makes now, strange that a member of
	// no column is not null, retyped that a column had another type.
	usual, strange, retyped bool
}

// read reads the members of an event by one of the guesses. What is not a member is NULL, save the
// id, which is data.row's.
func (s *schema) read(e *envelope, guess int) *reading {
	list := s.columns.List
	r := &reading{values: make([][]byte, len(list)), exact: true, fits: true, usual: true}
	r.members = e.members
	for _, m := range e.members {
		name := textOf(m.Name)
		c, known := s.columnOf[name]
		column := source.Column{}
		if known = known && !slices.Contains(r.at, c); known {
			column = list[c]
		} else {
			r.strange = r.strange || string(m.Value) != "null"
			column.Name, c = s.columnName(name, guess), len(r.values)
			r.values = append(r.values, nil)
		}
		written := s.asWritten(column, m.Value, guess, c)
		value, exact, fits := invert(written, s.Zone, m.Value)
		r.values[c], r.exact, r.fits = value, r.exact && exact, r.fits && fits
		r.at, r.columns = append(r.at, c), append(r.columns, written)
		r.usual = r.usual && known && written == column && s.names[c] == name
		r.retyped = r.retyped || known && written.Kind != column.Kind
	}
	now := s.live
	if e.reason != "" {
		now = s.dead
	}
	r.usual = r.usual && slices.Equal(r.at, now)
	if format := s.columns.IDFormat; format != "" {
		of := source.IDColumn{Format: format, Binary: list[s.columns.ID].Kind == source.Binary, Fold: format != source.KSUID}
		n, err := of.Number(r.values[s.columns.ID])
		r.fits = r.fits && (r.values[s.columns.ID] == nil || err == nil && n == e.row)
		return r
	}
	id := strconv.AppendUint(nil, e.row, 10)
	if r.values[s.columns.ID] == nil {
		r.values[s.columns.ID] = id
	}
	r.fits = r.fits && bytes.Equal(r.values[s.columns.ID], id)
	return r
}

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
		// Another member of the table has that name.
		return name + "\x00"
	}
	return name
}

// asWritten returns a column, the one with this index, as it was when it made a member. What
// meta.time is taken from was a time.
func (s *schema) asWritten(c source.Column, v []byte, guess, index int) source.Column {
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
	case isTimestamp(v):
		// A text may look like one, so that is the first guess where the column is no time.
		switch {
		case isTime && guess < 2:
		case c.Kind == source.DateTime || !isTime && guess == 2:
			c.Kind = source.Timestamp
		case c.Kind == source.Timestamp || guess == 1:
			c.Kind = source.DateTime
		case c.Kind != source.Text:
			c.Kind, c.Precision = source.Text, 0
		}
		if c.Kind == source.DateTime || c.Kind == source.Timestamp {
			if c.Precision = 0; v[20] == '.' {
				c.Precision = len(v) - len(`"2006-01-02T15:04:05.Z"`)
			}
		}
	case isTime && len(v) == len(`"2006-01-02"`):
		c.Kind, c.Precision = source.Date, 0
	case index == s.columns.Created || index == s.columns.Modified:
	case c.Kind == 0 || c.Kind == source.Int || c.Kind == source.Float || c.Kind == source.Bit || isTime,
		c.Kind == source.Date && len(v) != len(`"2006-01-02"`), c.Kind == source.Binary && guess > 0:
		c.Kind, c.Precision = source.Text, 0
	}
	return c
}

// isTimestamp reports whether a member is a string like "2006-01-02T15:04:05.000Z".
func isTimestamp(v []byte) bool {
	return len(v) >= len(`"2006-01-02T15:04:05Z"`) && v[5] == '-' && v[8] == '-' && v[11] == 'T' && v[14] == ':' && v[len(v)-2] == 'Z'
}

// invert returns the value of a column in its normal form that a member was made of. exact is false
// where the member does not tell it: a JSON document has lost its blanks, a bit field its width.
// fits is false for a member that no such column makes.
//
// Numbers and texts are taken for one another, because a column may have changed its type since the
// event.
func invert(c source.Column, zone *time.Location, v []byte) (value []byte, exact, fits bool) {
	if string(v) == "null" {
		return nil, true, true
	}
	switch c.Kind {
	case source.JSON:
		return v, false, true
	case source.Bit:
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			// A DELETED of zero bits does not say that its row is deleted.
			b := binary.BigEndian.AppendUint64(nil, n)
			v = b[min(7, len(b)-len(bytes.TrimLeft(b, "\x00"))):]
		}
		return v, false, true
	}
	text, quoted := unquote(v)
	if !quoted {
		fits := len(v) > 0 && v[0] != '{' && v[0] != '['
		return v, fits, fits
	}
	switch c.Kind {
	case source.Binary:
		value, err := base64.StdEncoding.AppendDecode([]byte{}, text)
		return value, err == nil, err == nil
	case source.Timestamp:
		zone = time.UTC
	case source.DateTime:
	default:
		return text, true, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return nil, false, false
	}
	// The digits of the fraction stay as written.
	layout := time.DateTime
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		layout += "." + strings.Repeat("0", len(text)-i-len(".Z"))
	}
	return t.In(zone).AppendFormat(nil, layout), true, true
}

func (s *schema) digest(r *reading) [16]byte {
	named := make([]event.NamedValue, 0, len(r.at))
	for i, c := range r.at {
		if c != s.columns.ID && c != s.columns.Created && c != s.columns.Modified {
			named = append(named, event.NamedValue{Column: r.columns[i].Name, Value: r.values[c]})
		}
	}
	return event.DigestOf(named)
}

// encode makes the event of a row of the table, whose members are in s.row then.
func (s *schema) encode(row event.Row) (event.Event, error) {
	buf, ev, err := s.Encoder.Append(s.rowBody[:0], row)
	if err != nil {
		return ev, err
	}
	s.rowBody, s.row = buf, body{s.live, membersOf(s.row.members[:0], ev.Body)}
	if ev.Op == event.Deleted {
		s.row.at = s.dead
	}
	// Which columns of a row its event does not tell shows which events cannot be judged.
	for i, c := range s.row.at {
		if c == s.columns.ID {
			continue
		}
		got, exact, fits := invert(s.columns.List[c], s.Zone, s.row.members[i].Value)
		switch {
		case got == nil && row.Values[c] != nil:
			s.lossy |= bit(c, true)
		case exact && fits && !bytes.Equal(got, row.Values[c]):
			s.lossy |= bit(c, false)
		}
	}
	return ev, nil
}

// present returns the columns that could explain why an event does not fit.
func (s *schema) present(b *body) (of columns) {
	for i, c := range b.at {
		if c < len(s.columns.List) {
			of |= bit(c, string(b.members[i].Value) == "null")
		}
	}
	return of
}

// stateOf digests what is compared of an event, in whatever order and under whatever names: the
// members that are not null, but for the id, CREATED and MODIFIED.
func (s *schema) stateOf(b *body) (sum uint64) {
	for i, m := range b.members {
		if c := b.at[i]; c != s.columns.ID && c != s.columns.Created && c != s.columns.Modified && string(m.Value) != "null" {
			s.scratch = append(binary.AppendUvarint(s.scratch[:0], uint64(c)), m.Value...)
			sum += maphash.Bytes(seed, s.scratch)
		}
	}
	return sum
}

// adopt encodes a row of another table of the stream as one of this, and returns it so. Columns are
// the same where digests take them for that: by their names as they are written.
func (s *schema) adopt(from *schema, row event.Row) (event.Row, error) {
	values := make([][]byte, len(s.columns.List))
	for to, own := range s.columns.List {
		if c := slices.IndexFunc(from.columns.List, func(c source.Column) bool { return c.Name == own.Name }); c >= 0 {
			values[to] = row.Values[c]
		}
	}
	row.Values = values
	_, err := s.encode(row)
	return row, err
}

func (s *schema) bodyOf(members []event.RawMember) uint64 {
	d := s.scratch[:0]
	for _, m := range members {
		d = append(append(append(d, m.Name...), m.Value...), 0)
	}
	s.scratch = d
	return maphash.Bytes(seed, d)
}
