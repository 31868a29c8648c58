package verify

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"bridge/event"
	"bridge/source"
)

// variant is how events are written that have other members than those of the table, or members of
// other types: columns have come, gone or changed since, or FIELDS, EXCLUDE or MASK.
type variant struct {
	// encoder is nil where no events can be made of these members.
	encoder *event.Encoder
	// base are the columns of the table, columns are those that the events were made of. Behind the
	// ones of the table stand members of no column.
	base, columns *source.Columns
	// at has the column of each member, digits how many digits the fraction of a column's values
	// has, -1 for as many as there are.
	at, digits []int
	// strange says that a member of no column is not null, retyped that a column had another type.
	strange, retyped bool
}

// judged is a variant with the values of an event.
type judged struct {
	encoder *event.Encoder
	columns *source.Columns
	at      []int
	values  [][]byte
	strange bool
}

const (
	mostVariants = 1000
	// guesses is how many ways there are to read the types of members, from the likeliest on.
	guesses = 3
)

// variantOf returns the variant of an event, nil if its members are the names that the table has
// now, and of its types.
func (s *schema) variantOf(e *envelope, names []string, guess int) *variant {
	usual := len(e.members) == len(names)
	id := strconv.AppendInt(s.digest[:0], int64(guess), 10)
	for i, m := range e.members {
		name, _ := unquote(m.name)
		c, known := s.columnOf(string(name))
		column := source.Column{}
		if known {
			column = s.columns.List[c]
		} else {
			c = len(s.columns.List)
		}
		written, digits := s.asWritten(column, m.value, guess, c)
		usual = usual && names[i] == string(name) && written == column
		null := string(m.value) == "null"
		id = append(append(append(id, 0), name...), 0, byte(written.Kind), byte(digits))
		if null && !known {
			id = append(id, 'n')
		}
	}
	s.digest = id
	if usual {
		return nil
	}
	v := s.variants[string(id)]
	if v == nil {
		if v = s.newVariant(e, guess); len(s.variants) < mostVariants {
			s.variants[string(id)] = v
		}
	}
	return v
}

func (s *schema) newVariant(e *envelope, guess int) *variant {
	columns := *s.columns
	columns.List = slices.Clone(columns.List)
	v := &variant{base: s.columns, columns: &columns}
	for range columns.List {
		v.digits = append(v.digits, -1)
	}
	var fields []event.Field
	for _, m := range e.members {
		name, _ := unquote(m.name)
		c, known := s.columnOf(string(name))
		if !known || slices.Contains(v.at, c) {
			v.strange = v.strange || string(m.value) != "null"
			c = len(columns.List)
			columns.List = append(columns.List, source.Column{Name: s.columnName(string(name), guess)})
			v.digits = append(v.digits, -1)
		}
		kind := columns.List[c].Kind
		columns.List[c], v.digits[c] = s.asWritten(columns.List[c], m.value, guess, c)
		v.retyped = v.retyped || kind != 0 && columns.List[c].Kind != kind
		v.at, fields = append(v.at, c), append(fields, event.Field{Column: columns.List[c].Name, Member: string(name)})
	}
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

// values inverts the members of an event. What is no member is NULL, save the id, which is
// data.row's.
func (v *variant) invert(s *schema, e *envelope) (j judged, exact, ok bool) {
	j = judged{encoder: v.encoder, columns: v.columns, at: v.at, values: make([][]byte, len(v.columns.List)), strange: v.strange}
	exact = true
	for i, m := range e.members {
		value, sure, fits := event.Invert(v.columns.List[v.at[i]], s.Zone, m.value)
		if !fits {
			return j, false, false
		}
		j.values[v.at[i]], exact = value, exact && sure
	}
	ok = setID(j.values, v.columns.ID, e.row)
	return j, exact, ok
}

// row returns a row of the table as one that its events of this variant were made of; ok is false
// after the columns have changed.
func (v *variant) row(row source.Row, columns *source.Columns) (adopted source.Row, ok bool) {
	if v.encoder == nil || v.base != columns {
		return row, false
	}
	adopted = row
	adopted.Values = make([][]byte, len(v.columns.List))
	for c, value := range row.Values {
		adopted.Values[c] = shorten(value, v.digits[c])
	}
	return adopted, true
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
