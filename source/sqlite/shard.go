package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
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
		t.Server = c.identity
		return nil
	})
	return t, err
}

// idColumn is the column of the id in statements, with a format with the collation of its index.
type idColumn struct {
	name string
	source.IDColumn
}

// idColumnOf returns why a column cannot have ids with a format, empty where it can.
func idColumnOf(format source.IDFormat, column sqltable.Column, index *sqltable.Index) (id idColumn, why string) {
	id.Format, id.name = format, quoteName(column.Name)
	switch column.Kind {
	case source.Binary:
		id.Binary = true
		return id, ""
	case source.Text:
	default:
		return id, "which must hold text or bytes"
	}
	if index == nil {
		// That is another finding.
		return id, ""
	}
	collation := upper(index.Columns[0].Collation)
	id.Fold = collation == "NOCASE" && format != source.KSUID
	if id.name += " COLLATE " + quoteName(index.Columns[0].Collation); collation != "BINARY" && !id.Fold {
		return id, "whose index has the collation " + collation + ", in another order than ids have: make it BINARY"
	}
	return id, ""
}

func (c idColumn) literal(v []byte) string { return sqltable.IDLiteral(c.IDColumn, v) }

func (c idColumn) number(v driver.Value) (uint64, error) {
	if c.Format == "" {
		id, ok := v.(int64)
		if !ok {
			return 0, fmt.Errorf("%w: the id %v is not an integer: correct or delete the row", source.ErrUnfit, v)
		}
		return uint64(id), nil
	}
	switch v := v.(type) {
	case string:
		if !c.Binary {
			return c.Number([]byte(v))
		}
	case []byte:
		if c.Binary {
			return c.Number(v)
		}
	}
	return 0, fmt.Errorf("%w: the id %v is stored as a %T: correct or delete the row", source.ErrUnfit, v, v)
}

// page returns the statement of a page without a limit: the reader ends it.
func (s *shard) page(q source.Query) string {
	// No integer lies above 2^63-1. As a bound that keeps texts away, which are above all numbers.
	id, most := s.shape.ids, uint64(math.MaxInt64)
	if id.Format != "" {
		most = math.MaxUint64
	}
	if q.Ranges != nil {
		return strings.Replace(s.query.byKey, keysSlot, id.within(q.Ranges, s.quoted()+" "+s.shape.by), 1)
	}
	where := []string{"TRUE"}
	if id.Format == "" || q.After > 0 {
		where = append(where, id.name+" > "+sqltable.Highest(id.IDColumn, min(q.After, most)))
	}
	if through := min(cmp.Or(q.Through, most), most); through < math.MaxUint64 {
		where = append(where, id.name+" <= "+sqltable.Highest(id.IDColumn, through))
	}
	return strings.Replace(s.query.byKey, keysSlot, s.quoted()+" "+s.shape.by+" WHERE "+strings.Join(where, " AND ")+" ORDER BY "+id.name+" LIMIT -1", 1)
}

// within returns what selects the rows of ranges from a table. They come in order and are looked up
// one after the other: nothing is sorted.
func (c idColumn) within(ranges []source.Range, table string) string {
	bounds := []string{"(NULL, NULL)"}
	for _, r := range ranges {
		// No integer lies above 2^63-1.
		if c.Format != "" || r.First <= math.MaxInt64 {
			bounds = append(bounds, "("+sqltable.Lowest(c.IDColumn, r.First)+", "+sqltable.Highest(c.IDColumn, r.Last)+")")
		}
	}
	return "(WITH bridge_ranges (bridge_low, bridge_high) AS (VALUES " + strings.Join(bounds, ", ") + ") SELECT * FROM bridge_ranges) CROSS JOIN " +
		table + " WHERE " + c.name + " BETWEEN bridge_low AND bridge_high"
}

// readFormatChanges reads changes where the id is the time.
func (s *shard) readFormatChanges(ctx context.Context, c *session, q source.ChangeQuery, changes *source.Changes) error {
	id, where := s.shape.ids, " WHERE "+s.shape.ids.name+" IS NOT NULL"
	for _, bound := range []struct{ sign, text string }{{" > ", q.After.Modified}, {" <= ", q.Through}} {
		if bound.text == "" {
			continue
		}
		v := id.Stored(bound.text)
		if v == nil {
			return fmt.Errorf("%w: %q is not an id", source.ErrAltered, bound.text)
		}
		where += " AND " + id.name + bound.sign + id.literal(v)
	}
	rows, err := c.QueryContext(ctx, "SELECT "+id.name+" FROM "+s.quoted()+" "+s.shape.by+where+" ORDER BY "+id.name+" LIMIT "+strconv.Itoa(q.Limit), nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, 1)
	_, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
		at, err := id.cursor(row[0])
		at.Modified = at.Row
		changes.List = append(changes.List, at)
		return false, err
	})
	changes.More = len(changes.List) == q.Limit
	return sqltable.Close(rows, err)
}

func (c idColumn) cursor(v driver.Value) (at source.Cursor, err error) {
	if at.ID, err = c.number(v); err == nil && c.Format != "" {
		at.Row = string(c.AppendText(nil, []byte(sqltable.Text(v))))
	}
	return at, err
}
