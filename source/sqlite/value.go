package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// valueForm brings the values of one column into the normal form of its kind.
type valueForm struct {
	kind    source.Kind
	boolean bool
	// zone is where times without a zone are, epoch the unit of Unix times.
	zone  *time.Location
	epoch time.Duration
}

// append appends v, which is not nil, in the normal form, or as it stands where it has none.
func (f valueForm) append(b []byte, v driver.Value) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		if at, ok := f.unixTime(v); ok && f.kind == source.Date {
			return at.AppendFormat(b, time.DateOnly), nil
		} else if ok {
			return at.AppendFormat(b, timestampLayout), nil
		}
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return f.appendReal(b, v), nil
	case string:
		return f.appendText(b, v), nil
	case []byte:
		return append(b, v...), nil
	}
	return b, fmt.Errorf("unexpected value of type %T from the driver", v)
}

func (f valueForm) appendText(b []byte, v string) []byte {
	switch {
	case f.boolean && strings.EqualFold(v, "true"):
		return append(b, '1')
	case f.boolean && strings.EqualFold(v, "false"):
		return append(b, '0')
	case f.kind == source.Date:
		if at, ok := f.textTime(v); ok && isMidnight(at) {
			return at.AppendFormat(b, time.DateOnly)
		}
	case f.kind == source.Timestamp:
		if at, ok := f.textTime(v); ok && inRange(at.UTC()) {
			return at.UTC().AppendFormat(b, timestampLayout)
		}
	}
	return append(b, v...)
}

// appendReal writes v as a number of JSON, an integer without an exponent. Infinite numbers are
// "Inf" and "-Inf".
func (f valueForm) appendReal(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	if f.kind == source.Int && v == math.Trunc(v) {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return sqltable.AppendFloat(b, v, 64)
}

const (
	timestampLayout = "2006-01-02 15:04:05.000000"
	// precision is the number of digits of timestampLayout's fraction.
	precision = 6
	// minUnix and maxUnix are the years 0 to 9999, which SQLite and RFC 3339 can write.
	minUnix, maxUnix = -62167219200, 253402300799
)

// unixTime reads an INTEGER of a column of times. A REAL is none: SQLite's date functions take one
// for a Julian day.
func (f valueForm) unixTime(v int64) (time.Time, bool) {
	if f.kind != source.Timestamp && f.kind != source.Date {
		return time.Time{}, false
	}
	perSecond := int64(time.Second / f.epoch)
	if v/perSecond < minUnix || v/perSecond > maxUnix {
		return time.Time{}, false
	}
	at := time.Unix(v/perSecond, v%perSecond*int64(f.epoch)).UTC()
	return at, inRange(at) && (f.kind == source.Timestamp || isMidnight(at))
}

func isMidnight(at time.Time) bool { return at.Hour()|at.Minute()|at.Second()|at.Nanosecond() == 0 }

// inRange reports whether the normal form can hold a moment in UTC.
func inRange(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

// layoutOf returns the layout of an ISO text: a day, or a day and a time of day behind a T or a
// blank, with seconds or without, with a zone or without. It is "" for any other text. Go reads the
// digits of a fraction where the layout has none.
func layoutOf(v string) string {
	const day = len(time.DateOnly)
	switch {
	case len(v) == day:
		return time.DateOnly
	case len(v) < len("2006-01-02 15:04") || v[day] != ' ' && v[day] != 'T':
		return ""
	}
	long, short := "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"
	if v[day] == 'T' {
		long, short = time.RFC3339, "2006-01-02T15:04Z07:00"
	}
	layout, rest := short, v[len("2006-01-02 15:04"):]
	if rest != "" && rest[0] == ':' {
		layout = long
	}
	if !strings.ContainsAny(rest, "Z+-") {
		layout = layout[:len(layout)-len(zoneLayout)]
	}
	return layout
}

const zoneLayout = "Z07:00"

// textTime reads the text of a column of times, as a wall clock of its zone.
func (f valueForm) textTime(v string) (time.Time, bool) {
	layout := layoutOf(v)
	if layout == "" {
		return time.Time{}, false
	}
	at, err := time.ParseInLocation(layout, v, f.zone)
	return at, err == nil
}
