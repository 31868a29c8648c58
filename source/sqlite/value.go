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

func inRange(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

// layoutOf returns the layout of an ISO text without its zone: a day, or a day and a time of day
// behind a T or a blank, with seconds or without. It is "" for any other text. Go reads the digits
// of a fraction where the layout has none.
func layoutOf(wall string) string {
	const day, minutes = len(time.DateOnly), len("2006-01-02 15:04")
	if len(wall) == day {
		return time.DateOnly
	}
	if len(wall) < minutes || wall[len("2006-01-02 15")] != ':' {
		return ""
	}
	separator := strings.IndexByte(" Tt", wall[day])
	if separator < 0 {
		return ""
	}
	layout := [...]string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02t15:04:05"}[separator]
	if len(wall) == minutes {
		return layout[:minutes]
	}
	return layout
}

// cutZone parts a text from its zone, which is that of the column where the text has none: "Z",
// "UTC", "+02:00", "+0200" or "+02", with or without a blank before it. Behind an offset come the
// name of the zone and the monotonic clock that time.Time.String of Go writes.
func (f valueForm) cutZone(v string) (wall string, zone *time.Location, ok bool) {
	v = strings.TrimRight(v, " ")
	end := min(len(v), len("2006-01-02 15:04"))
	i := strings.IndexAny(v[end:], " +-UZuz")
	if i < 0 {
		return v, f.zone, true
	}
	end += i
	offset, tail, _ := strings.Cut(upper(strings.TrimLeft(v[end:], " ")), " ")
	if offset == "UTC" && tail == "" {
		offset = "Z"
	}
	for _, layout := range []string{"Z07:00", "Z0700", "Z07"} {
		at, err := time.ParseInLocation(layout, offset, time.UTC)
		if err == nil && strings.Trim(tail, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.=+- ") == "" {
			return v[:end], at.Location(), true
		}
	}
	return v[:end], f.zone, false
}

// textTime reads the text of a column of times, as a wall clock of its zone.
func (f valueForm) textTime(v string) (time.Time, bool) {
	wall, zone, ok := f.cutZone(v)
	layout := layoutOf(wall)
	if !ok || layout == "" {
		return time.Time{}, false
	}
	at, err := time.ParseInLocation(layout, wall, zone)
	return at, err == nil
}
