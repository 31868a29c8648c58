package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

type shard struct {
	source *Source
	spec   source.Spec
	table  sqltable.Name

	// shape is nil until the columns have been read.
	shape *shape
	// masks are the masks of the columns; nil where none has one.
	masks source.Masks
	query queries
	// version and identity are the schema and the file of the columns; stale has them read again.
	version, identity string
	stale             bool

	scratch []byte
}

var _ source.Shard = (*shard)(nil)

func (s *shard) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := s.run(ctx, "read "+s.spec.Table+" after "+strconv.FormatUint(q.After, 10), func(ctx context.Context, c *session) error {
		p.Reset()
		return s.readPage(ctx, c, q, p)
	})
	if err != nil {
		p.Reset()
		return err
	}
	s.spec.Expire(&q, p)
	return nil
}

// run runs read on a connection, with the columns of the table at hand. Where an error may come
// from columns that changed it reads them again and tries once more. What is done is for the error.
func (s *shard) run(ctx context.Context, what string, read func(ctx context.Context, c *session) error) error {
	try := func() error {
		return s.source.do(ctx, func(ctx context.Context, c *session) error {
			if s.shape == nil || s.stale {
				if err := s.refresh(ctx, c); err != nil {
					return err
				}
			}
			return read(ctx, c)
		})
	}
	err := try()
	if err != nil && s.shape != nil && mayBeStale(err) {
		s.stale = true
		err = try()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	return nil
}

// refresh reads the columns and keeps the former ones while they are the same.
func (s *shard) refresh(ctx context.Context, c *session) error {
	// The version first: a change right after it shows at the page.
	var version string
	err := c.query(ctx, "PRAGMA schema_version", func(get func(string) string) { version = get("schema_version") })
	if err != nil {
		return err
	}
	read, masks, err := s.readShape(ctx, c)
	if err != nil {
		return err
	}
	if s.shape != nil {
		if changes := s.shape.columns.Changes(read.columns); len(changes) > 0 {
			s.source.options.Logger.Info("columns changed", append([]any{"table", s.spec.Table}, changes...)...)
		}
	}
	if s.shape == nil || !reflect.DeepEqual(s.shape, read) {
		s.shape = read
	}
	s.query = s.newQueries(s.shape)
	s.masks, s.version, s.identity, s.stale = masks, version, c.identity, false
	return nil
}

// NextID returns the id after the highest that the table ever had when its id is AUTOINCREMENT,
// else 0: SQLite then gives the id after the highest that the table has now.
func (s *shard) NextID(ctx context.Context) (uint64, error) {
	var next uint64
	err := s.source.do(ctx, func(ctx context.Context, c *session) (err error) {
		next, err = s.nextID(ctx, c)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the next id of %s: %w", s.spec.Table, explain(err))
	}
	return next, nil
}

func (s *shard) nextID(ctx context.Context, c *session) (next uint64, err error) {
	sh, _, err := s.readShape(ctx, c)
	if err != nil || sh.counter == "" {
		return 0, err
	}
	// The counter's row is missing before the first insert.
	query := "SELECT MAX(COALESCE((SELECT CAST(seq AS INTEGER) FROM main.sqlite_sequence WHERE name = ?1), 0), " +
		"COALESCE((SELECT MAX(" + quoteName(sh.columns.List[sh.columns.ID].Name) + ") FROM " + s.quoted() + "), 0)) AS highest"
	var malformed error
	err = c.query(ctx, query, func(get func(string) string) {
		var highest int64
		highest, malformed = strconv.ParseInt(get("highest"), 10, 64)
		next = uint64(max(highest, 0)) + 1
	}, sh.counter)
	return next, cmp.Or(err, malformed)
}

// ReadIDs reads ids by the index of the id. What is not committed is never seen: SQLite has one
// writer at a time, and none of its rows can appear below one that is committed already.
func (s *shard) ReadIDs(ctx context.Context, ranges []source.Range, _ bool, limit int, ids *source.IDs) error {
	err := s.run(ctx, "read ids of "+s.spec.Table, func(ctx context.Context, c *session) error {
		*ids = source.IDs{List: ids.List[:0], Now: time.Now().UTC().Round(0), Server: c.identity}
		id := s.shape.ids
		rows, err := c.QueryContext(ctx, "SELECT "+id.name+" FROM "+id.within(ranges, s.quoted()+" "+s.shape.by), nil)
		if err != nil {
			return err
		}
		row := make([]driver.Value, 1)
		_, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
			n, err := id.number(row[0])
			switch last := len(ids.List) - 1; {
			case err != nil || last >= 0 && n == ids.List[last] && id.Format != "":
				return false, err
			case last >= 0 && n <= ids.List[last]:
				return false, fmt.Errorf("%w: the id %v does not come in order: look at the file with PRAGMA integrity_check", source.ErrUnfit, row[0])
			case last+1 == limit:
				return true, nil
			}
			ids.List = append(ids.List, n)
			return false, nil
		})
		return sqltable.Close(rows, err)
	})
	ids.Cut = len(ids.List) == limit
	return err
}

// Traits says that SQLite needs no evidence, and that a row which is not in the file is absent.
func (s *shard) Traits(ctx context.Context) (source.Traits, error) {
	t := source.Traits{
		Order: source.OrderStrict, OrderWhy: "SQLite has one counter",
		EvidenceWhy: "SQLite has one writer and needs none",
		Writer:      true, WriterWhy: "the application writes to this file",
	}
	err := s.run(ctx, "ask about the indexes of "+s.spec.Table, func(_ context.Context, c *session) error {
		t.Server, t.ModifiedIndexed = c.identity, s.shape.modified.by != "" || s.shape.columns.ByID
		return nil
	})
	return t, err
}
