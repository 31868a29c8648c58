package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"

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
	if s.shape.modified == "" {
		return sqltable.NoModified(s.spec, "an administrator", s.createModifiedIndex(s.spec.Modified))
	}
	column := s.shape.columns.List[s.shape.columns.Modified]
	for _, v := range []string{q.After.Modified, q.Through} {
		if v != "" && !timeForms[column.Kind].MatchString(v) {
			return fmt.Errorf("%w: %q is not a value of the column %q", source.ErrAltered, v, column.Name)
		}
	}
	id, modified := s.shape.id(), quoteName(column.Name)
	head, more, err := s.list(ctx, session, q.Ranges, q.Limit, listing{
		columns: []string{modified, id},
		from: func(part []source.Range) string {
			if q.Ranges != nil {
				return forceIndex(s.shape.index) + " WHERE " + inRanges(id, part) + " AND " + modified + " IS NOT NULL ORDER BY " + id
			}
			return forceIndex(s.shape.modified) + " WHERE " + behind(q, modified, id) + " AND " + id + " > 0 ORDER BY " + modified + ", " + id
		},
		each: func(row []driver.Value) error {
			id, err := rowID(row[1])
			c.List = append(c.List, source.Cursor{Modified: sqltable.Text(row[0]), ID: id})
			return err
		},
	})
	c.More, c.Now, c.Server = more, head.Now, head.Server
	return err
}

// behind returns the condition that a row lies after q.After and not after q.Through.
func behind(q source.ChangeQuery, modified, id string) string {
	condition := modified + " IS NOT NULL"
	if at := q.After.Modified; at != "" {
		// As two ranges of the index, the first of which begins after the id.
		condition = "((" + modified + " = '" + at + "' AND " + id + " > " + strconv.FormatUint(q.After.ID, 10) + ") OR " + modified + " > '" + at + "')"
	}
	if q.Through != "" {
		condition += " AND " + modified + " <= '" + q.Through + "'"
	}
	return condition
}
