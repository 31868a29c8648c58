package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

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
