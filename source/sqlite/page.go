package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	codes "modernc.org/sqlite/lib"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func (s *shard) readPage(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	if q.Keys != nil {
		return s.readKeys(ctx, c, q, p)
	}
	p.Columns, p.Server = s.shape.columns, c.identity
	// Before the snapshot is taken, and without the monotonic reading that a database has not.
	p.Now = time.Now().UTC().Round(0)
	if s.shape.ids.Format != "" {
		return s.readFormatPage(ctx, c, q, p)
	}
	// No id lies above 2^63-1, and the upper bound keeps texts away, which are above all numbers.
	through := uint64(math.MaxInt64)
	if q.Through > 0 {
		through = min(through, q.Through)
	}
	statement, args := s.query.page, []driver.NamedValue{
		{Ordinal: 1, Value: int64(min(q.After, math.MaxInt64))}, {Ordinal: 2, Value: int64(through)}, {Ordinal: 3, Value: int64(q.Limit)},
	}
	if q.Ranges != nil {
		statement, args = s.query.ranges, rangesArgs(q.Ranges, q.Limit)
	}
	full, err := s.readRows(ctx, c, statement, args, func(row []driver.Value) (full bool, err error) {
		if id, ok := row[s.shape.columns.ID].(int64); ok && len(p.Rows) > 0 && uint64(id) <= p.Rows[len(p.Rows)-1].ID {
			return false, fmt.Errorf("%w: the id %d came after %d although its index is in order: look at the file with PRAGMA integrity_check",
				source.ErrUnfit, id, p.Rows[len(p.Rows)-1].ID)
		}
		if err := s.appendRow(row, p); err != nil {
			return false, err
		}
		return q.MaxBytes > 0 && p.Bytes >= q.MaxBytes, nil
	}, p)
	p.More = full || len(p.Rows) == q.Limit
	return err
}

// readRows runs the statement of a page, reads its head into p and hands its rows to take, until
// that has enough.
func (s *shard) readRows(ctx context.Context, c *session, statement string, args []driver.NamedValue, take func([]driver.Value) (bool, error), p *source.Page) (full bool, err error) {
	rows, err := c.QueryContext(ctx, statement, args)
	if err != nil {
		return false, err
	}
	row, headed := make([]driver.Value, len(rows.Columns())), false
	full, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
		if headed {
			return take(row[1:])
		}
		headed = true
		return false, s.readHead(sqltable.Text(row[0]), p)
	})
	if err == nil && !headed {
		err = errStale
	}
	// Closing ends the snapshot, whether all of it was read or not.
	return full, sqltable.Close(rows, err)
}

func (s *shard) appendRow(row []driver.Value, p *source.Page) error {
	id, err := s.shape.rowID(row[s.shape.columns.ID])
	if err != nil {
		return err
	}
	width := len(s.shape.columns.List)
	p.Append(id, width)
	if len(row) > width && row[width] != nil {
		p.Filter()
	}
	for i, v := range row[:width] {
		if v == nil {
			continue
		}
		var err error
		if s.scratch, err = s.shape.values[i].append(s.emptied(), v); err != nil {
			return fmt.Errorf("column %q: %w", s.shape.columns.List[i].Name, err)
		}
		p.Set(i, s.masks.Hide(i, s.scratch))
	}
	return nil
}

// rowID returns the id of a row.
func (sh *shape) rowID(v driver.Value) (uint64, error) {
	if sh.ids.Format != "" {
		return sh.ids.number(v)
	}
	id, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%w: the id %v is not an integer: correct or delete the row", source.ErrUnfit, v)
	}
	return uint64(id), nil
}

// emptied returns the scratch memory, which is never nil: that would be NULL.
func (s *shard) emptied() []byte {
	const keepBytes = 1 << 20
	if s.scratch == nil || cap(s.scratch) > keepBytes {
		s.scratch = make([]byte, 0, 64)
	}
	return s.scratch[:0]
}

func (s *shard) quoted() string { return s.table.SQL(`"`) }

func quoteName(name string) string { return sqltable.Quote(`"`, name) }

type queries struct {
	// page has the parameters After, Through and Limit, ranges and ids the ranges and Limit.
	page, ranges, ids string
	// byKey has keysSlot where the keys go; table is a name, read the condition of rows that are
	// read.
	byKey, table, read string
	// changes has the parameters from (included) and to (not included); greatest reads the greatest
	// MODIFIED. Both are "" when no index begins with MODIFIED.
	changes, greatest string
}

// keysSlot cannot stand in a statement otherwise.
const keysSlot = "\x00"

func (s *shard) newQueries(sh *shape) queries {
	t := s.quoted()
	id := quoteName(sh.columns.List[sh.columns.ID].Name)
	from := t + " " + sh.by
	// The ranges come in order and are looked up one after the other: nothing is sorted.
	each := "(SELECT value AS bridge_range FROM json_each(?1)) CROSS JOIN " + from +
		" WHERE " + id + " BETWEEN bridge_range ->> 0 AND bridge_range ->> 1 LIMIT ?2"
	q := queries{
		page:   pageQuery(t, sh, from+" WHERE "+id+" > ?1 AND "+id+" <= ?2 ORDER BY "+id+" LIMIT ?3"),
		ranges: pageQuery(t, sh, each),
		ids:    "SELECT " + id + " FROM " + each,
		byKey:  pageQuery(t, sh, keysSlot),
		table:  t,
		read:   id + " > 0",
	}
	if sh.ids.Format != "" {
		q.read = "TRUE"
	}
	if m := sh.modified; m.by != "" {
		from := " FROM " + t + " " + m.by + " WHERE " + m.column
		q.changes = "SELECT " + m.column + ", " + id + from + " >= ?1 AND " + m.column + " < ?2 AND " + q.read + " ORDER BY " + m.column
		q.greatest = "SELECT MAX(" + m.column + ") AS greatest, typeof(MAX(" + m.column + ")) AS class FROM " + t + " " + m.by
	}
	return q
}

// pageQuery composes a statement of a page. Both parts go by the index of the id; the second is a
// subquery because ORDER BY and LIMIT would else hold for both.
func pageQuery(t string, sh *shape, from string) string {
	id := quoteName(sh.columns.List[sh.columns.ID].Name)
	var b strings.Builder
	// A highest id of another class is told by its class: text and blobs are above all numbers.
	highest := "CASE typeof(m) WHEN 'integer' THEN m WHEN 'null' THEN 0 ELSE typeof(m) END"
	if sh.ids.Format != "" {
		id, highest = sh.ids.name, "CASE typeof(m) WHEN 'null' THEN '0' ELSE typeof(m) || ' ' || hex(m) END"
	}
	b.WriteString("SELECT (SELECT schema_version FROM pragma_schema_version) || ' ' || (SELECT " + highest + " FROM (SELECT MAX(" + id + ") AS m FROM " + t + "))")
	// What is beside the columns.
	beside, none := "", ""
	if sh.filter != "" {
		beside, none = ", "+source.Unmatched(sh.filter), ", NULL"
	}
	b.WriteString(strings.Repeat(", NULL", len(sh.columns.List)) + none)
	b.WriteString(" UNION ALL SELECT * FROM (SELECT NULL")
	for _, column := range sh.columns.List {
		name := quoteName(column.Name)
		if column.Kind == source.JSON {
			// JSON in SQLite's binary form (JSONB) becomes text, if it is not the text of a
			// document in the bytes of a blob.
			name = "CASE WHEN typeof(" + name + ") = 'blob' AND NOT json_valid(CAST(" + name + " AS TEXT)) AND json_valid(" + name + ", 8) " +
				"THEN json(" + name + ") ELSE " + name + " END"
		}
		b.WriteString(", " + name)
	}
	b.WriteString(beside + " FROM " + from + ")")
	return b.String()
}

// rangesArgs returns the parameters for ranges, ids above 2^63-1 left out.
func rangesArgs(ranges []source.Range, limit int) []driver.NamedValue {
	b := []byte{'['}
	for _, r := range ranges {
		if r.First > math.MaxInt64 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendUint(b, r.First, 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, min(r.Last, math.MaxInt64), 10)
		b = append(b, ']')
	}
	return []driver.NamedValue{{Ordinal: 1, Value: string(append(b, ']'))}, {Ordinal: 2, Value: int64(limit)}}
}

// readHead reads the first column of a page's first row: the schema version and the highest id.
func (s *shard) readHead(head string, p *source.Page) error {
	version, highest, _ := strings.Cut(head, " ")
	if s.shape.ids.Format != "" {
		return s.readFormatHead(version, highest, p)
	}
	switch highest {
	case "real", "text", "blob":
		return fmt.Errorf("%w: the highest id is a %s, not an integer: correct or delete the row", source.ErrUnfit, highest)
	}
	id, err := strconv.ParseInt(highest, 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("the first row of the page cannot be read: %q", head)
	case version != s.version || p.Server != s.identity:
		return errStale
	}
	p.MaxID = uint64(max(id, 0))
	return nil
}

func (t *inspection) checkFilter(ctx context.Context, c *session) error {
	return t.CheckFilter(func(where string) (fault string, err error) {
		// It was accepted.
		_, double, _ := source.Unquoted(t.Spec.Filter)
		for _, name := range double {
			if t.Table.At(name) < 0 && upper(name) != upper(t.table.Table) {
				// SQLite would take it for a text, without an error where it is a column misspelt.
				return fmt.Sprintf("it has %q in double quotes, which is not a column: write texts in single quotes", name), nil
			}
		}
		if err = c.query(ctx, "SELECT 1 FROM "+t.quoted()+where, nil); number(err) == codes.SQLITE_ERROR {
			return err.Error(), nil
		}
		return "", err
	})
}
