package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"slices"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// ReadChanges reads along the index that MODIFIED leads, from the second of the cursor on. Rows
// whose MODIFIED is stored otherwise than the greatest value, or is not a time, are left out.
func (s *shard) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	return s.run(ctx, "read what changed in "+s.spec.Table, func(ctx context.Context, session *session) error {
		*c = source.Changes{List: c.List[:0]}
		order := s.shape.modified
		switch {
		case q.Ranges != nil || q.Uncommitted:
			return fmt.Errorf("%w: SQLite shows nothing uncommitted", source.ErrUnfit)
		case s.shape.columns.ByID:
			c.Now, c.Server = time.Now().UTC().Round(0), session.identity
			return s.readFormatChanges(ctx, session, q, c)
		case order.by == "":
			return sqltable.NoModified(s.spec, "the application", s.createModifiedIndex(s.spec.Modified))
		}
		c.Now, c.Server = time.Now().UTC().Round(0), session.identity
		var greatest, class string
		err := session.query(ctx, s.query.greatest, func(get func(string) string) { greatest, class = get("greatest"), get("class") })
		if err != nil || class == "null" {
			return err
		}
		form := s.shape.values[s.shape.columns.Modified]
		from, to, err := form.bounds(greatest, class, q)
		if err != nil {
			return err
		}
		rows, err := session.QueryContext(ctx, s.query.changes, []driver.NamedValue{{Ordinal: 1, Value: from}, {Ordinal: 2, Value: to}})
		if err != nil {
			return err
		}
		r := changesReader{shape: s.shape, form: form, query: q, list: c.List}
		row := make([]driver.Value, 2)
		_, err = sqltable.Scan(ctx, rows, row, func() (bool, error) { return r.add(row[0], row[1]) })
		r.cut()
		c.List, c.More = r.list, len(r.list) == q.Limit
		return sqltable.Close(rows, err)
	})
}

// changesReader gathers the lowest changes of rows that come in the order in which their times are
// stored, which within a second may not be their order.
type changesReader struct {
	shape *shape
	form  valueForm
	query source.ChangeQuery
	list  []source.Cursor
	// last is the second in which the limit was reached, nil before.
	last    []byte
	scratch []byte
}

const secondLen = len(time.DateTime)

// add adds one row and reports whether no row after it can be among the lowest.
func (r *changesReader) add(v, row driver.Value) (done bool, err error) {
	at, err := r.shape.ids.cursor(row)
	if err != nil {
		return false, err
	}
	if r.scratch, err = r.form.append(r.scratch[:0], v); err != nil {
		return false, err
	}
	modified := r.scratch
	if !(source.Column{Kind: r.form.kind}).IsTime(modified) {
		return false, nil
	}
	second := modified[:min(secondLen, len(modified))]
	if r.last != nil && bytes.Compare(second, r.last) > 0 {
		return true, nil
	}
	at.Modified = string(modified)
	if at.Compare(r.query.After) <= 0 || r.query.Through != "" && at.Modified > r.query.Through {
		return false, nil
	}
	r.list = append(r.list, at)
	if len(r.list) >= r.query.Limit && r.last == nil {
		r.last = bytes.Clone(second)
	}
	if len(r.list) >= 2*r.query.Limit {
		r.cut()
	}
	return false, nil
}

func (r *changesReader) cut() {
	slices.SortFunc(r.list, source.Cursor.Compare)
	r.list = r.list[:min(len(r.list), r.query.Limit)]
}

// bounds returns, by the greatest value of the column and its class, what is stored for the second
// of the cursor, and for the one after the end of q.
func (f valueForm) bounds(stored, class string, q source.ChangeQuery) (from, to driver.Value, err error) {
	after, err := f.moment(q.After.Modified, minUnix)
	if err != nil {
		return nil, nil, err
	}
	through, err := f.moment(q.Through, maxUnix)
	if err != nil {
		return nil, nil, err
	}
	after, through = after.Truncate(time.Second), through.Truncate(time.Second).Add(time.Second)
	if class == "integer" || class == "real" {
		return f.unixFrom(after), f.unixFrom(through), nil
	}
	layout, step, zone := f.storedLayout(stored)
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

// unixFrom returns t, a whole second, in the unit of the column, or the nearest that it can hold.
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

func (f valueForm) storedLayout(stored string) (layout string, step time.Duration, zone *time.Location) {
	if f.kind == source.Date {
		// A day may be stored with the time of day or without.
		return time.DateOnly, 24 * time.Hour, f.zone
	}
	wall, zone, _ := f.cutZone(stored)
	layout = layoutOf(wall)
	// Through a second nothing is to be added.
	step = map[int]time.Duration{len(time.DateOnly): 24 * time.Hour, len("2006-01-02 15:04"): time.Minute}[len(layout)]
	return cmp.Or(layout, time.DateTime), step, zone
}
