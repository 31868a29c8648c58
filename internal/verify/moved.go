package verify

import (
	"slices"
	"strings"
	"time"

	"bridge/event"
	"bridge/source"
)

// adopt returns a row of another table of the scope as it would stand in this one, and its event,
// which is spread. ok is false where the row says something that this table has no column for.
func (s *schema) adopt(from *schema, row source.Row, now time.Time) (adopted source.Row, ok bool) {
	columns := s.columnsOf(from.columns)
	values := make([][]byte, len(s.columns.List))
	for c, v := range row.Values {
		switch to := columns[c]; {
		case to >= 0:
			values[to] = v
		case v != nil && from.isState(c):
			return source.Row{}, false
		}
	}
	adopted = source.Row{ID: row.ID, Values: values, Filtered: row.Filtered}
	buf, ev, err := s.Encoder.Append(s.buf[:0], event.Row{Row: adopted, Read: now})
	if err != nil {
		return source.Row{}, false
	}
	s.buf = buf
	if s.row.parse(ev.Body) != nil {
		return source.Row{}, false
	}
	names := s.live
	if ev.Op == event.Deleted {
		names = s.dead
	}
	s.spread(&s.row, names)
	s.learn(values)
	return adopted, true
}

// isState reports whether a column is a member of the shard's events that is compared.
func (s *schema) isState(column int) bool {
	if column == s.columns.ID || column == s.columns.Created || column == s.columns.Modified {
		return false
	}
	for _, c := range s.byName {
		if c == column {
			return true
		}
	}
	return false
}

// columnsOf returns, for each column of another table, that of this one with its name, or -1.
func (s *schema) columnsOf(other *source.Columns) []int {
	if known, ok := s.columnsFrom[other]; ok {
		return known
	}
	columns := make([]int, len(other.List))
	for i, c := range other.List {
		columns[i] = slices.IndexFunc(s.columns.List, func(own source.Column) bool { return strings.EqualFold(own.Name, c.Name) })
	}
	if s.columnsFrom == nil {
		s.columnsFrom = make(map[*source.Columns][]int)
	}
	s.columnsFrom[other] = columns
	return columns
}
