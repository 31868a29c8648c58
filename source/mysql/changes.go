package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// ReadChanges implements [source.ChangeReader], by the index that the package's documentation says.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	return s.run(ctx, s.source.pool(q.Uncommitted), "read what changed in "+s.spec.Table, func(ctx context.Context, session conn) error {
		return s.readChanges(ctx, session, q, c)
	})
}

func (s *shard) readChanges(ctx context.Context, session conn, q source.ChangeQuery, c *source.Changes) error {
	*c = source.Changes{List: c.List[:0]}
	column, _ := s.shape.columns.Cursor()
	if !s.shape.columns.Indexed {
		return sqltable.NoModified(s.spec, "an administrator", s.createModifiedIndex(s.spec.Modified))
	}
	id, by := s.shape.id(), s.shape.modified
	modified := quoteName(column.Name)
	if column.Format != "" {
		by = s.shape.index
	}
	for _, v := range q.Rows {
		if id.Format == "" || id.Stored(v) == nil {
			return fmt.Errorf("%w: %q is not an id", source.ErrAltered, v)
		}
	}
	for _, v := range []string{q.After.Modified, q.Through} {
		if v != "" && (column.Format == "" && !timeForms[column.Kind].MatchString(v) || column.Format != "" && id.Stored(v) == nil) {
			return fmt.Errorf("%w: %q is not a value of the column %q", source.ErrAltered, v, column.Name)
		}
	}
	ranges, rows := q.Ranges, slices.Sorted(slices.Values(q.Rows))
	if q.Rows != nil {
		// As many as there are rows: they say how the read is split.
		ranges = make([]source.Range, len(rows))
	}
	head, more, err := s.list(ctx, session, ranges, q.Limit, listing{
		columns: []string{modified, id.name},
		from: func(part []source.Range) string {
			switch {
			case q.Rows != nil:
				some := rows[:len(part)]
				rows = rows[len(part):]
				return forceIndex(s.shape.index) + " WHERE " + id.oneOf(some) + " AND " + modified + " IS NOT NULL ORDER BY " + id.name
			case q.Ranges != nil:
				return forceIndex(s.shape.index) + " WHERE " + inRanges(id, part) + " AND " + modified + " IS NOT NULL ORDER BY " + id.name
			case column.Format != "":
				return forceIndex(by) + " WHERE " + id.behind(q) + " ORDER BY " + id.name
			}
			return forceIndex(by) + " WHERE " + behind(q, modified, id) + " AND " + id.positive() + " ORDER BY " + modified + ", " + id.name
		},
		each: func(row []driver.Value) error {
			number, err := id.number(row[1])
			at := source.Cursor{ID: number}
			if err == nil && id.Format != "" {
				at.Row = string(id.AppendText(nil, row[1].([]byte)))
			}
			if at.Modified = at.Row; column.Format == "" {
				at.Modified = sqltable.Text(row[0])
			}
			c.List = append(c.List, at)
			return err
		},
	})
	c.More, c.Now, c.Server = more, head.Now, head.Server
	return err
}

func (c idColumn) oneOf(texts []string) string {
	if len(texts) == 0 {
		return "FALSE"
	}
	values := make([]string, len(texts))
	for i, text := range texts {
		values[i] = c.literal(c.Stored(text))
	}
	return c.name + " IN (" + strings.Join(values, ", ") + ")"
}

// behind is the condition of q's bounds where the id is the time.
func (c idColumn) behind(q source.ChangeQuery) string {
	condition := "TRUE"
	if at := q.After.Modified; at != "" {
		condition = c.name + " > " + c.literal(c.Stored(at))
	}
	if q.Through != "" {
		condition += " AND " + c.name + " <= " + c.literal(c.Stored(q.Through))
	}
	return condition
}

// behind returns the condition that a row lies after q.After and not after q.Through.
func behind(q source.ChangeQuery, modified string, id idColumn) string {
	condition := modified + " IS NOT NULL"
	if at := q.After.Modified; at != "" {
		// As two ranges of the index, the first of which begins after the id.
		after := id.above(q.After.ID)
		if id.Format != "" {
			after = id.behind(source.ChangeQuery{After: source.Cursor{Modified: q.After.Row}})
		}
		condition = "((" + modified + " = '" + at + "' AND " + after + ") OR " + modified + " > '" + at + "')"
	}
	if q.Through != "" {
		condition += " AND " + modified + " <= '" + q.Through + "'"
	}
	return condition
}
