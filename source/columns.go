package source

import (
	"context"
	"errors"
	"strings"
	"time"
)

// SetRoles sets the indexes of the columns that spec names. Index returns that of the column that a
// role names; it is not asked for "".
func (c *Columns) SetRoles(spec Spec, index func(name string) int) {
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return index(name)
	}
	c.ID, c.Created, c.Modified, c.Deleted = at(spec.ID), at(spec.Created), at(spec.Modified), at(spec.Deleted)
	c.Key = nil
	for _, key := range spec.Key {
		c.Key = append(c.Key, at(key))
	}
	if len(c.Key) == 0 {
		c.Key = []int{c.ID}
	}
}

// Changes returns the differences from c to now as log attributes: the names of columns added,
// dropped and altered.
func (c *Columns) Changes(now *Columns) []any {
	var added, dropped, altered []string
	was := make(map[string]Column)
	for _, column := range c.List {
		was[column.Name] = column
	}
	for _, column := range now.List {
		before, ok := was[column.Name]
		switch {
		case !ok:
			added = append(added, column.Name)
		case before != column:
			altered = append(altered, column.Name)
		}
		delete(was, column.Name)
	}
	for _, column := range c.List {
		if _, gone := was[column.Name]; gone {
			dropped = append(dropped, column.Name)
		}
	}
	var attributes []any
	for _, change := range []struct {
		key   string
		names []string
	}{{"added", added}, {"dropped", dropped}, {"altered", altered}} {
		if len(change.names) > 0 {
			attributes = append(attributes, change.key, strings.Join(change.names, ","))
		}
	}
	return attributes
}

// Cursor is a position in the order of (MODIFIED, id). The zero value is before everything.
type Cursor struct {
	// Modified is the value of the MODIFIED column in its normal form.
	Modified string
	// ID is the id of the row.
	ID uint64
}

// ChangeQuery asks for the rows after After in the order of (MODIFIED, id) whose MODIFIED is at
// most Through.
type ChangeQuery struct {
	After Cursor
	// Through is a value of the MODIFIED column in its normal form, empty for no bound.
	Through string
	// Limit is the highest number of rows, at least 1.
	Limit int
	// Ranges, when not nil, are the ids whose rows are wanted, in place of After and Through:
	// ascending and disjoint. They come in ascending order of their ids.
	Ranges []Range
	// Uncommitted includes rows of open transactions, in their uncommitted state. It and Ranges
	// need Traits.Uncommitted.
	Uncommitted bool
}

// Changes is the result of one ReadChanges.
type Changes struct {
	// List is in ascending order of (MODIFIED, id), or of the ids.
	List []Cursor
	// More says that Limit ended the read.
	More bool
	// Now and Server are as in Page.
	Now    time.Time
	Server string
}

// ErrAltered is returned if the values of a query do not have the form of its column, because the
// column was altered since. The next page has the new columns.
var ErrAltered = errors.New("the column was altered")

// ChangeReader reads which rows changed, for the second cursor. Every Shard is one.
type ChangeReader interface {
	// ReadChanges overwrites c with ids and values of MODIFIED, which it reads by an index that
	// begins with MODIFIED. It fails with ErrUnfit if the spec names no MODIFIED column or no index
	// begins with it, and with ErrAltered if the values of the query are of another kind than the
	// column's. It leaves out rows whose MODIFIED is NULL.
	ReadChanges(ctx context.Context, q ChangeQuery, c *Changes) error
}

// Time reads v, a value of the column in its normal form, as a moment in UTC: a Timestamp as it
// stands, a DateTime as the wall clock of zone, a Date as the midnight of zone; a nil zone is UTC.
// It is false for NULL, for a date that is zero or has a zero month or day, for one that no
// calendar knows, and for the kinds that are not times. It does not allocate.
//
// A wall clock that zone shows twice or skips (the change of summer time) is read as time.Date
// reads it.
func (c Column) Time(v []byte, zone *time.Location) (time.Time, bool) {
	if c.Kind == Timestamp || zone == nil {
		zone = time.UTC
	}
	w, ok := c.wall(v)
	if !ok {
		return time.Time{}, false
	}
	return time.Date(w.year, time.Month(w.month), w.day, w.hour, w.minute, w.second, w.nanos, zone).UTC(), true
}

// IsTime reports whether Time reads v as a moment, without making one.
func (c Column) IsTime(v []byte) bool {
	_, ok := c.wall(v)
	return ok
}

// wall is what a calendar and a clock on the wall show.
type wall struct{ year, month, day, hour, minute, second, nanos int }

// wall reads v, a value of the column in its normal form.
func (c Column) wall(v []byte) (w wall, ok bool) {
	switch c.Kind {
	case Date:
		if len(v) != len(time.DateOnly) {
			return w, false
		}
	case DateTime, Timestamp:
		if len(v) < len(time.DateTime) {
			return w, false
		}
	default:
		return w, false
	}
	if w.year, w.month, w.day, ok = parseDay(v); !ok || c.Kind == Date {
		return w, ok
	}
	w.hour, w.minute, w.second, w.nanos, ok = parseClock(v[len(time.DateOnly):])
	return w, ok
}

// Text writes the moment t as a value of the column in its normal form, rounded down to the
// column's precision: a Timestamp in UTC, a DateTime as the wall clock of zone, a Date as the day
// in zone; a nil zone is UTC. It is the inverse of Time where a wall clock shows a moment once. It
// is "" for a kind that is not a time, and for years outside 0 to 9999, which have no normal form.
func (c Column) Text(t time.Time, zone *time.Location) string {
	if c.Kind == Timestamp || zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	if year := t.Year(); year < 0 || year > 9999 {
		return ""
	}
	switch c.Kind {
	case Date:
		return t.Format(time.DateOnly)
	case DateTime, Timestamp:
		const finest = time.DateTime + ".000000"
		digits := len(finest) - 6 + c.Precision
		if c.Precision == 0 {
			digits = len(time.DateTime)
		}
		return t.Format(finest[:digits])
	}
	return ""
}

// parseDay reads the "2006-01-02" that v begins with; v must be long enough.
func parseDay(v []byte) (year, month, day int, ok bool) {
	century, ok1 := twoDigits(v[0:])
	year, ok2 := twoDigits(v[2:])
	month, ok3 := twoDigits(v[5:])
	day, ok4 := twoDigits(v[8:])
	year += 100 * century
	ok = ok1 && ok2 && ok3 && ok4 && v[4] == '-' && v[7] == '-' &&
		month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
	return year, month, day, ok
}

// parseClock reads " 15:04:05" with up to nine digits of a fraction; v must hold the nine bytes
// before it.
func parseClock(v []byte) (hour, minute, second, nanos int, ok bool) {
	hour, ok1 := twoDigits(v[1:])
	minute, ok2 := twoDigits(v[4:])
	second, ok3 := twoDigits(v[7:])
	nanos, ok4 := parseFraction(v[9:])
	ok = ok1 && ok2 && ok3 && ok4 && v[0] == ' ' && v[3] == ':' && v[6] == ':' &&
		hour <= 23 && minute <= 59 && second <= 59
	return hour, minute, second, nanos, ok
}

// parseFraction reads "", or a point and one to nine digits, as nanoseconds.
func parseFraction(v []byte) (nanos int, ok bool) {
	if len(v) == 0 {
		return 0, true
	}
	if v[0] != '.' || len(v) == 1 || len(v) > 10 {
		return 0, false
	}
	for i := 1; i < 10; i++ {
		nanos *= 10
		if i < len(v) {
			digit := v[i] - '0'
			if digit > 9 {
				return 0, false
			}
			nanos += int(digit)
		}
	}
	return nanos, true
}

func twoDigits(v []byte) (int, bool) {
	tens, ones := v[0]-'0', v[1]-'0'
	return 10*int(tens) + int(ones), tens <= 9 && ones <= 9
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}
