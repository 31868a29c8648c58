package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// ReadChanges reads along the index that MODIFIED leads, from the second of the cursor on. SQLite
// orders times as they are stored, as the greatest value shows: as texts with a T or a space in the
// middle and in which zone, or as integers. Rows that store theirs otherwise are left
// out, as are those whose MODIFIED is not a time.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	return s.run(ctx, "read what changed in "+s.spec.Table, func(ctx context.Context, session *session) error {
		*c = source.Changes{List: c.List[:0]}
		order := s.shape.modified
		switch {
		case q.Ranges != nil || q.Uncommitted:
			return fmt.Errorf("%w: SQLite shows nothing uncommitted", source.ErrUnfit)
		case order.by == "":
			return sqltable.NoModified(s.spec, "the application", s.createModifiedIndex(s.spec.Modified))
		}
		c.Now, c.Server = time.Now().UTC().Round(0), session.identity
		greatest, err := session.value(ctx, s.query.greatest)
		if err != nil || greatest == nil {
			return err
		}
		form := s.shape.values[s.shape.columns.Modified]
		from, to, err := form.bounds(greatest, q)
		if err != nil {
			return err
		}
		rows, err := session.QueryContext(ctx, s.query.changes, []driver.NamedValue{{Ordinal: 1, Value: from}, {Ordinal: 2, Value: to}})
		if err != nil {
			return err
		}
		r := changesReader{form: form, query: q, list: c.List}
		err = r.read(ctx, rows)
		if closed := rows.Close(); err == nil {
			err = closed
		}
		c.List, c.More = r.result()
		return err
	})
}

// value runs a query for one value; nil is NULL or no row.
func (s *session) value(ctx context.Context, query string) (driver.Value, error) {
	rows, err := s.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, 1)
	err = rows.Next(row)
	if closed := rows.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return row[0], err
}

// changesReader gathers the lowest changes of rows that come in the order in which their times are
// stored, which within a second may not be their order.
type changesReader struct {
	form  valueForm
	query source.ChangeQuery
	list  []source.Cursor
	// last is the second in which the limit was reached, nil before.
	last    []byte
	scratch []byte
}

const secondLen = len(time.DateTime)

func (r *changesReader) read(ctx context.Context, rows driver.Rows) error {
	row := make([]driver.Value, 2)
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
		id, ok := row[1].(int64)
		if !ok {
			return fmt.Errorf("%w: the id %v is not an integer: correct or delete the row", source.ErrUnfit, row[1])
		}
		var err error
		if r.scratch, err = r.form.append(r.scratch[:0], row[0]); err != nil {
			return err
		}
		if done := r.add(r.scratch, uint64(id)); done {
			return nil
		}
	}
}

// add adds one row and reports whether no row after it can be among the lowest.
func (r *changesReader) add(modified []byte, id uint64) (done bool) {
	if _, ok := (source.Column{Kind: r.form.kind}).Time(modified, nil); !ok {
		return false
	}
	second := modified[:min(secondLen, len(modified))]
	if r.last != nil && bytes.Compare(second, r.last) > 0 {
		return true
	}
	at := source.Cursor{Modified: string(modified), ID: id}
	if compare(at, r.query.After) <= 0 || r.query.Through != "" && at.Modified > r.query.Through {
		return false
	}
	r.list = append(r.list, at)
	if len(r.list) >= r.query.Limit && r.last == nil {
		r.last = bytes.Clone(second)
	}
	if len(r.list) >= 2*r.query.Limit {
		r.cut()
	}
	return false
}

// cut keeps the lowest changes.
func (r *changesReader) cut() {
	slices.SortFunc(r.list, compare)
	r.list = r.list[:min(len(r.list), r.query.Limit)]
}

func (r *changesReader) result() (list []source.Cursor, more bool) {
	r.cut()
	return r.list, len(r.list) == r.query.Limit
}

func compare(a, b source.Cursor) int {
	return cmp.Or(cmp.Compare(a.Modified, b.Modified), cmp.Compare(a.ID, b.ID))
}

// bounds returns what the column stores for the second of the cursor, and for the one after the
// end of q.
func (f valueForm) bounds(stored driver.Value, q source.ChangeQuery) (from, to driver.Value, err error) {
	after, err := f.moment(q.After.Modified, minUnix)
	if err != nil {
		return nil, nil, err
	}
	through, err := f.moment(q.Through, maxUnix)
	if err != nil {
		return nil, nil, err
	}
	after, through = after.Truncate(time.Second), through.Truncate(time.Second).Add(time.Second)
	switch stored.(type) {
	case int64, float64:
		return f.unixFrom(after), f.unixFrom(through), nil
	}
	layout, step, zone := f.storedLayout(sqltable.Text(stored))
	from, to = after.In(zone).Format(layout), through.Add(step).In(zone).Format(layout)
	if q.After.Modified == "" {
		from = ""
	}
	if q.Through == "" {
		// Bytes are above all texts.
		to = []byte{}
	}
	return from, to, nil
}

// unixFrom returns t, a whole second, as a number in the unit of the column; times that the number
// cannot hold are as far as it goes.
func (f valueForm) unixFrom(t time.Time) int64 {
	perSecond := int64(time.Second / f.epoch)
	return min(max(t.Unix(), math.MinInt64/perSecond), math.MaxInt64/perSecond) * perSecond
}

// moment reads a value of the column in its normal form, "" as the given Unix time.
func (f valueForm) moment(normal string, open int64) (time.Time, error) {
	if normal == "" {
		return time.Unix(open, 0).UTC(), nil
	}
	at, ok := source.Column{Kind: f.kind}.Time([]byte(normal), nil)
	if !ok {
		return time.Time{}, fmt.Errorf("%q is not a time", normal)
	}
	return at, nil
}

// storedLayout returns how a text like the given one writes a moment, in which steps, and in which
// zone.
func (f valueForm) storedLayout(stored string) (layout string, step time.Duration, zone *time.Location) {
	zone = f.zone
	if f.kind == source.Date || len(stored) <= len(time.DateOnly) {
		return time.DateOnly, 24 * time.Hour, zone
	}
	separator, rest := stored[len(time.DateOnly)], stored[len(time.DateOnly)+1:]
	if !isSeparator(separator) {
		return time.DateTime, 0, zone
	}
	clock, named := cutZone(rest)
	if offset, ok := parseZone(named); ok && named != "" {
		zone = time.FixedZone("", offset)
	}
	if len(clock) == len("15:04") {
		return time.DateOnly + string(separator) + "15:04", time.Minute, zone
	}
	return time.DateOnly + string(separator) + "15:04:05", 0, zone
}
