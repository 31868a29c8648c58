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

// readPage runs the statement of a page and reads its result into p.
func (s *shard) readPage(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	p.Columns, p.Server = s.shape.columns, c.identity
	// Before the snapshot is taken, and without the monotonic reading that a database has not.
	p.Now = time.Now().UTC().Round(0)
	statement, args := s.query.page, pageArgs(q)
	if q.Ranges != nil {
		statement, args = s.query.ranges, rangesArgs(q.Ranges, q.Limit)
	}
	rows, err := c.QueryContext(ctx, statement, args)
	if err != nil {
		return err
	}
	full, err := s.fill(ctx, rows, q, p)
	// Closing ends the snapshot, whether all of it was read or not; after an error it repeats that error.
	if closed := rows.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	p.More = full || len(p.Records) == q.Limit
	return nil
}

// fill reads the head, then appends the records of rows until they end or the budget is reached.
func (s *shard) fill(ctx context.Context, rows driver.Rows, q source.Query, p *source.Page) (full bool, err error) {
	row := make([]driver.Value, len(s.shape.columns.List)+1)
	if err := rows.Next(row); err != nil {
		return false, fmt.Errorf("read the first row of the page: %w", err)
	}
	version, err := parseHead(text(row[0]), p)
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
		if err := s.appendRecord(row[1:], p); err != nil {
			return false, err
		}
		full = q.MaxBytes > 0 && p.Bytes >= q.MaxBytes
	}
	return full, nil
}

func (s *shard) appendRecord(row []driver.Value, p *source.Page) error {
	id, ok := row[s.shape.columns.ID].(int64)
	switch last := len(p.Records) - 1; {
	case !ok:
		return fmt.Errorf("%w: the id %v is no integer: correct or delete the row", source.ErrUnfit, row[s.shape.columns.ID])
	case last >= 0 && uint64(id) <= p.Records[last].ID:
		return fmt.Errorf("%w: the id %d came after %d although its index is in order: look at the file with PRAGMA integrity_check",
			source.ErrUnfit, id, p.Records[last].ID)
	}
	p.Append(uint64(id), len(row))
	for i, v := range row {
		if v == nil {
			continue
		}
		var err error
		if s.scratch, err = s.shape.values[i].append(s.emptied(), v); err != nil {
			return fmt.Errorf("column %q: %w", s.shape.columns.List[i].Name, err)
		}
		p.Set(i, s.scratch)
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
