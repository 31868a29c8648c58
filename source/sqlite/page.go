package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"bridge/source"
	"bridge/source/internal/sqlconn"
)

// readPage runs the statement of a page and reads its result into p.
func (s *shard) readPage(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	if q.Keys != nil {
		return s.readKeys(ctx, c, q, p)
	}
	p.Columns, p.Server = s.shape.columns, c.identity
	// Before the snapshot is taken, and without the monotonic reading that a database has not.
	p.Now = time.Now().UTC().Round(0)
	statement, args := s.query.page, pageArgs(q)
	if q.Ranges != nil {
		statement, args = s.query.ranges, rangesArgs(q.Ranges, q.Limit)
	}
	full, err := s.readRows(ctx, c, statement, args, func(row []driver.Value) (full bool, err error) {
		if err := checkOrder(row[s.shape.columns.ID], p); err != nil {
			return false, err
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
	full, err = s.fill(ctx, rows, take, p)
	// Closing ends the snapshot, whether all of it was read or not; after an error it repeats that
	// error.
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return full, err
}

// fill reads the head, then hands on rows until they end or take has enough.
func (s *shard) fill(ctx context.Context, rows driver.Rows, take func([]driver.Value) (bool, error), p *source.Page) (full bool, err error) {
	width := 1 + len(s.shape.columns.List)
	if s.shape.filter != "" {
		width++
	}
	row := make([]driver.Value, width)
	if err := rows.Next(row); err != nil {
		return false, fmt.Errorf("read the first row of the page: %w", err)
	}
	version, err := parseHead(sqlconn.Text(row[0]), p)
	if err != nil {
		return false, err
	}
	if version != s.version || p.Server != s.identity {
		return false, errStale
	}
	for !full {
		// The driver heeds the context up to the first row only.
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		if full, err = take(row[1:]); err != nil {
			return false, err
		}
	}
	return full, nil
}

// checkOrder refuses a row that does not follow the last one of p.
func checkOrder(id driver.Value, p *source.Page) error {
	last := len(p.Rows) - 1
	if n, ok := id.(int64); ok && last >= 0 && uint64(n) <= p.Rows[last].ID {
		return fmt.Errorf("%w: the id %d came after %d although its index is in order: look at the file with PRAGMA integrity_check",
			source.ErrUnfit, n, p.Rows[last].ID)
	}
	return nil
}

func (s *shard) appendRow(row []driver.Value, p *source.Page) error {
	id, ok := row[s.shape.columns.ID].(int64)
	if !ok {
		return fmt.Errorf("%w: the id %v is not an integer: correct or delete the row", source.ErrUnfit, row[s.shape.columns.ID])
	}
	width := len(s.shape.columns.List)
	p.Append(uint64(id), width)
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
		p.Set(i, s.shape.masks.Hide(i, s.scratch))
	}
	return nil
}

// emptied returns the scratch memory, which is never nil: that would be NULL.
func (s *shard) emptied() []byte {
	const keepBytes = 1 << 20
	if s.scratch == nil || cap(s.scratch) > keepBytes {
		s.scratch = make([]byte, 0, 64)
	}
	return s.scratch[:0]
}
