package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"bridge/source"
)

// ReadIDs reads ids by the index of the id. What is not committed is never seen: SQLite has one
// writer at a time, and none of its rows can appear below one that is committed already.
func (s *shard) ReadIDs(ctx context.Context, ranges []source.Range, _ bool, limit int, ids *source.IDs) error {
	*ids = source.IDs{List: ids.List[:0]}
	err := s.source.do(ctx, func(ctx context.Context, c *session) error {
		if err := s.refreshIfStale(ctx, c); err != nil {
			return err
		}
		ids.Now, ids.Server = time.Now().UTC().Round(0), c.identity
		rows, err := c.QueryContext(ctx, s.query.ids, rangesArgs(ranges, limit))
		if err != nil {
			return err
		}
		return errors.Join(fillIDs(ctx, rows, ids), rows.Close())
	})
	if err != nil {
		s.stale = s.stale || mayBeStale(err)
		return fmt.Errorf("read ids of %s: %w", s.spec.Table, explain(err))
	}
	ids.Cut = len(ids.List) == limit
	return nil
}

func fillIDs(ctx context.Context, rows driver.Rows, ids *source.IDs) error {
	row := make([]driver.Value, 1)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		id, ok := row[0].(int64)
		if n := len(ids.List); !ok || n > 0 && uint64(id) <= ids.List[n-1] {
			return fmt.Errorf("%w: the id %v does not come in order: look at the file with PRAGMA integrity_check", source.ErrUnfit, row[0])
		}
		ids.List = append(ids.List, uint64(id))
	}
}

// Traits tells that SQLite needs no evidence, and that what is not in the file is not there.
func (s *shard) Traits(ctx context.Context) (source.Traits, error) {
	t := source.Traits{
		Order: source.OrderStrict, OrderWhy: "SQLite has one counter",
		EvidenceWhy: "SQLite has one writer and needs none",
		Writer:      true, WriterWhy: "the application writes to this file",
	}
	err := s.source.do(ctx, func(ctx context.Context, c *session) error {
		t.Server = c.identity
		if s.spec.Modified == "" {
			return nil
		}
		return s.refreshIfStale(ctx, c)
	})
	if err != nil {
		return source.Traits{}, fmt.Errorf("ask about the indexes of %s: %w", s.spec.Table, explain(err))
	}
	t.ModifiedIndexed = s.spec.Modified != "" && s.shape.modified.by != ""
	return t, nil
}
