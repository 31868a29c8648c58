package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// Query runs a query on a connection of s and returns the columns of its last row.
func (s *Source) Query(ctx context.Context, query string, columns ...string) (values []string, err error) {
	err = s.do(ctx, func(ctx context.Context, c *session) error {
		return c.query(ctx, query, func(get func(string) string) {
			values = values[:0]
			for _, column := range columns {
				values = append(values, get(column))
			}
		})
	})
	return values, err
}

// PretendUser has s take itself for a process of another user.
func (s *Source) PretendUser(user int) { s.connector.guest.user = user }

// KeysPlan returns how SQLite will look for rows with the given keys, one step a line.
func KeysPlan(ctx context.Context, reader source.Shard, keys [][][]byte) (steps []string, err error) {
	return plan(ctx, reader, func(s *shard) (string, []driver.NamedValue) {
		return s.query.keys(s.shape.key, s.shape.key.distinct(keys))
	})
}

// ChangesPlan returns how SQLite will read changes, and then how it will find the greatest
// MODIFIED.
func ChangesPlan(ctx context.Context, reader source.Shard) (steps []string, err error) {
	steps, err = plan(ctx, reader, func(s *shard) (string, []driver.NamedValue) {
		return s.query.changes, []driver.NamedValue{{Ordinal: 1, Value: "2026"}, {Ordinal: 2, Value: "2027"}}
	})
	if err != nil {
		return nil, err
	}
	greatest, err := plan(ctx, reader, func(s *shard) (string, []driver.NamedValue) { return s.query.greatest, nil })
	return append(steps, greatest...), err
}

func plan(ctx context.Context, reader source.Shard, of func(*shard) (string, []driver.NamedValue)) (steps []string, err error) {
	s := reader.(*shard)
	err = s.source.do(ctx, func(ctx context.Context, c *session) error {
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
		statement, args := of(s)
		rows, err := c.QueryContext(ctx, "EXPLAIN QUERY PLAN "+statement, args)
		if err != nil {
			return err
		}
		row := make([]driver.Value, 4)
		for err = rows.Next(row); err == nil; err = rows.Next(row) {
			steps = append(steps, sqltable.Text(row[3]))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, rows.Close())
	})
	return steps, err
}

// Plan returns how SQLite will run the statement of a page, one step a line.
func Plan(ctx context.Context, reader source.Shard, q source.Query) (steps []string, err error) {
	return plan(ctx, reader, func(s *shard) (string, []driver.NamedValue) {
		return s.page(q), nil
	})
}
