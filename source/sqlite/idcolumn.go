package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// idColumn is the column of ids with a format in statements, with the collation of its index.
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

// formatPage has no limit: the reader ends it behind all rows of an id.
func (s *shard) formatPage(q source.Query) string {
	id, where := s.shape.ids, ""
	if q.After > 0 {
		where = " WHERE " + id.name + " > " + id.literal(id.Highest(q.After))
	}
	if q.Through > 0 && q.Through < math.MaxUint64 {
		where += map[bool]string{true: " WHERE ", false: " AND "}[where == ""] + id.name + " <= " + id.literal(id.Highest(q.Through))
	}
	if q.Ranges != nil {
		return strings.Replace(s.query.byKey, keysSlot, id.within(q.Ranges)+s.quoted()+" "+s.shape.by+" WHERE "+id.name+" BETWEEN bridge_low AND bridge_high", 1)
	}
	return strings.Replace(s.query.byKey, keysSlot, s.quoted()+" "+s.shape.by+where+" ORDER BY "+id.name+" LIMIT -1", 1)
}

// within has ranges looked up in order, one after the other: nothing is sorted.
func (c idColumn) within(ranges []source.Range) string {
	var b strings.Builder
	b.WriteString("(WITH bridge_ranges (bridge_low, bridge_high) AS (VALUES ")
	for i, r := range ranges {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + c.literal(c.Lowest(r.First)) + ", " + c.literal(c.Highest(r.Last)) + ")")
	}
	if len(ranges) == 0 {
		b.WriteString("(NULL, NULL)")
	}
	return b.String() + ") SELECT * FROM bridge_ranges) CROSS JOIN "
}

func (s *shard) readFormatPage(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	enough, first, before := false, 0, 0
	full, err := s.readRows(ctx, c, s.formatPage(q), nil, func(row []driver.Value) (full bool, err error) {
		id, err := s.shape.ids.number(row[s.shape.columns.ID])
		n := len(p.Rows)
		switch {
		case err != nil:
			// Behind a full page, too: it may lie among the rows of the last id, behind which the
			// next page begins.
			return false, err
		case enough && id != p.Rows[n-1].ID:
			return true, nil
		case n > 0 && id < p.Rows[n-1].ID:
			return false, fmt.Errorf("%w: the id %d came after %d although its index is in order: look at the file with PRAGMA integrity_check", source.ErrUnfit, id, p.Rows[n-1].ID)
		}
		if n == 0 || id != p.Rows[n-1].ID {
			first, before = n, p.Bytes
		}
		if err := s.appendRow(row, p); err != nil {
			return false, err
		}
		if sharing, size := n+1-first, p.Bytes-before; sharing > source.SharingRows || size >= source.SharingBytes {
			return false, s.shape.ids.Crowded(p.Rows[first].Values[s.shape.columns.ID], sharing, size)
		}
		enough = len(p.Rows) >= q.Limit || q.MaxBytes > 0 && p.Bytes >= q.MaxBytes
		return false, nil
	}, p)
	p.More = full || enough
	return err
}

// readFormatIDs reads ids with a format, each number once.
func (s *shard) readFormatIDs(ctx context.Context, c *session, ranges []source.Range, limit int, ids *source.IDs) error {
	id := s.shape.ids
	rows, err := c.QueryContext(ctx, "SELECT "+id.name+" FROM "+id.within(ranges)+s.quoted()+" "+s.shape.by+" WHERE "+id.name+" BETWEEN bridge_low AND bridge_high", nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, 1)
	_, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
		n, err := id.number(row[0])
		if last := len(ids.List) - 1; err == nil && (last < 0 || ids.List[last] != n) {
			if len(ids.List) == limit {
				return true, nil
			}
			ids.List = append(ids.List, n)
		}
		return false, err
	})
	return sqltable.Close(rows, err)
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
	if at.ID, err = c.number(v); err == nil {
		at.Row = string(c.AppendText(nil, bytesOf(v)))
	}
	return at, err
}

func bytesOf(v driver.Value) []byte {
	if text, is := v.(string); is {
		return []byte(text)
	}
	b, _ := v.([]byte)
	return b
}

// readFormatHead reads the head of a page: behind its class, the highest id in hex.
func (s *shard) readFormatHead(version, highest string, p *source.Page) (err error) {
	if version != s.version || p.Server != s.identity {
		return errStale
	}
	if highest == "0" {
		return nil
	}
	class, digits, _ := strings.Cut(highest, " ")
	v, err := hex.DecodeString(digits)
	switch {
	case err != nil:
		return fmt.Errorf("the first row of the page cannot be read: %q", highest)
	case class == "text":
		p.MaxID, err = s.shape.ids.number(string(v))
	case class == "blob":
		p.MaxID, err = s.shape.ids.number(v)
	default:
		p.MaxID, err = s.shape.ids.number(nil)
	}
	return err
}
