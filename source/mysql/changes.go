package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// ReadChanges reads along the index that MODIFIED leads, and reads nothing but that index where it
// holds the id. Where the id is the primary key of InnoDB every index does, in the order of
// (MODIFIED, id); otherwise an index over (MODIFIED, id) does. By any other index the server sorts
// what lies after the cursor. Rows of ranges are read by the index of the id.
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
		from: func(b []byte, part []source.Range) []byte {
			if q.Ranges != nil {
				b = appendRanges(append(b, forceIndex(s.shape.index)+" WHERE "...), id, part)
				return append(b, " AND "+modified+" IS NOT NULL ORDER BY "+id...)
			}
			b = appendBehind(append(b, forceIndex(s.shape.modified)+" WHERE "...), q, modified, id)
			return append(b, " AND "+id+" > 0 ORDER BY "+modified+", "+id...)
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

// appendBehind appends the condition that a row lies after q.After and not after q.Through.
func appendBehind(b []byte, q source.ChangeQuery, modified, id string) []byte {
	if after := q.After; after.Modified != "" {
		// As two ranges of the index, the first of which begins after the id.
		b = append(b, "(("+modified+" = '"+after.Modified+"' AND "+id+" > "...)
		b = strconv.AppendUint(b, after.ID, 10)
		b = append(b, ") OR "+modified+" > '"+after.Modified+"')"...)
	} else {
		b = append(b, modified+" IS NOT NULL"...)
	}
	if q.Through != "" {
		b = append(b, " AND "+modified+" <= '"+q.Through+"'"...)
	}
	return b
}
