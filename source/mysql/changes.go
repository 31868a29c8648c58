package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqlconn"
)

// ReadChanges reads along the index that MODIFIED leads, and reads nothing but that index where it
// holds the id. Where the id is the primary key of InnoDB every index does, in the order of
// (MODIFIED, id); otherwise an index over (MODIFIED, id) does. By any other index the server sorts
// what lies after the cursor. Rows of ranges are read by the index of the id.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	err := s.run(ctx, s.source.pool(q.Uncommitted), "read what changed in "+s.spec.Table, func(ctx context.Context, session conn) error {
		return s.readChanges(ctx, session, q, c)
	})
	c.More = len(c.List) >= q.Limit
	return err
}

func (s *shard) readChanges(ctx context.Context, session conn, q source.ChangeQuery, c *source.Changes) error {
	*c = source.Changes{List: c.List[:0]}
	bare := q
	bare.Ranges = nil
	query, err := s.changesQuery(bare)
	if err != nil {
		return err
	}
	for _, part := range s.parts(q.Ranges, len(query)) {
		asked := q
		asked.Ranges, asked.Limit = part, q.Limit-len(c.List)
		if query, err = s.changesQuery(asked); err != nil {
			return err
		}
		rows, err := session.QueryContext(ctx, query, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(fillChanges(rows, c), rows.Close()); err != nil || len(c.List) >= q.Limit {
			return err
		}
	}
	return nil
}

// changesQuery composes the statement of a read of changes.
func (s *shard) changesQuery(q source.ChangeQuery) (string, error) {
	if s.shape.modified == "" {
		return "", s.noModifiedIndex()
	}
	column := s.shape.columns.List[s.shape.columns.Modified]
	for _, v := range []string{q.After.Modified, q.Through} {
		if v != "" && !timeForms[column.Kind].MatchString(v) {
			return "", fmt.Errorf("%w: %q is not a value of the column %q", source.ErrAltered, v, column.Name)
		}
	}
	id, modified := s.shape.id(), quoteName(column.Name)
	b := []byte("(SELECT CONCAT_WS(' ', UTC_TIMESTAMP(6), 0, ")
	b = append(b, s.source.connector.server.Load().identity...)
	b = append(b, "), NULL, NULL) UNION ALL (SELECT NULL, "+modified+", "+id+" FROM "+s.table.quoted()...)
	if q.Ranges != nil {
		b = append(b, forceIndex(s.shape.index)+" WHERE "...)
		b = appendRanges(b, id, q.Ranges)
		b = append(b, " AND "+modified+" IS NOT NULL ORDER BY "+id...)
	} else {
		b = append(b, forceIndex(s.shape.modified)+" WHERE "...)
		b = appendBehind(b, q, modified, id)
		b = append(b, " AND "+id+" > 0 ORDER BY "+modified+", "+id...)
	}
	b = append(b, " LIMIT "...)
	return string(append(strconv.AppendInt(b, int64(q.Limit), 10), ')')), nil
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

func (s tableSpec) noModifiedIndex() error {
	if s.spec.Modified == "" {
		return option.Errorf("%w: the stream has no %s column", source.ErrUnfit, option.Modified)
	}
	return fmt.Errorf("%w: no index of %s begins with the MODIFIED column %q: let an administrator run: %s",
		source.ErrUnfit, s.spec.Table, s.spec.Modified, s.createModifiedIndex(s.spec.Modified))
}

func fillChanges(rows driver.Rows, c *source.Changes) error {
	head, err := readHeaded(rows, 3, func(row []driver.Value) error {
		id, err := rowID(row[2])
		c.List = append(c.List, source.Cursor{Modified: sqlconn.Text(row[1]), ID: id})
		return err
	})
	if c.Server == "" {
		c.Now, c.Server = head.Now, head.Server
	}
	if err == nil && head.Server != c.Server {
		err = errMoved
	}
	return err
}
