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
		return append(b, midnight(v)...)
	case f.kind == source.Timestamp:
		if at, ok := f.textTime(b, v); ok {
			return at.AppendFormat(b, timestampLayout)
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
	return f.fits(time.Unix(v/perSecond, v%perSecond*int64(f.epoch)))
}

// fits returns at in UTC and reports whether the column's form can hold it: a Date holds a midnight
// only.
func (f valueForm) fits(at time.Time) (time.Time, bool) {
	at = at.UTC()
	whole := f.kind != source.Date || at.Equal(at.Truncate(24*time.Hour))
	return at, whole && at.Year() >= 0 && at.Year() <= 9999
}

// midnight returns the day of a text whose time of day is midnight, in whatever zone, else the
// text.
func midnight(v string) string {
	if len(v) <= len(time.DateOnly) || !isSeparator(v[len(time.DateOnly)]) {
		return v
	}
	clock, _ := cutZone(v[len(time.DateOnly)+1:])
	if clock == "" || strings.Trim(clock, "0:.") != "" {
		return v
	}
	return v[:len(time.DateOnly)]
}

func isSeparator(c byte) bool { return c == ' ' || c == 'T' || c == 't' }

// textTime reads the text of a column of times; scratch is memory that it may use.
func (f valueForm) textTime(scratch []byte, v string) (time.Time, bool) {
	day, rest := v, ""
	if len(v) > len(time.DateOnly) {
		if !isSeparator(v[len(time.DateOnly)]) {
			return time.Time{}, false
		}
		day, rest = v[:len(time.DateOnly)], v[len(time.DateOnly)+1:]
	}
	clock, zone := cutZone(rest)
	switch {
	case rest == "":
		clock = "00:00:00"
	case len(clock) == len("15:04"):
		clock += ":00"
	case len(clock) > len("15:04:05.123456789"):
		clock = clock[:len("15:04:05.123456789")]
	}
	location, offset := f.zone, 0
	if zone != "" {
		var ok bool
		if offset, ok = parseZone(zone); !ok {
			return time.Time{}, false
		}
		location = time.UTC
	}
	wall := append(append(append(scratch[len(scratch):], day...), ' '), clock...)
	at, ok := source.Column{Kind: source.DateTime}.Time(wall, location)
	if !ok {
		return time.Time{}, false
	}
	return f.fits(at.Add(-time.Duration(offset) * time.Second))
}

// cutZone parts a time of day from its zone, "15:04:05.5" from "+02:00 CEST m=+0.1".
func cutZone(v string) (clock, zone string) {
	i := strings.IndexFunc(v, func(r rune) bool { return (r < '0' || r > '9') && r != ':' && r != '.' })
	if i < 0 {
		return v, ""
	}
	return v[:i], strings.TrimLeft(v[i:], " ")
}

// parseZone reads "Z", "UTC", "+02:00", "+0200" or "+02" as seconds east of UTC. After an offset
// the name of the zone and the monotonic clock of time.Time.String may follow.
func parseZone(v string) (offset int, ok bool) {
	if upper(v) == "Z" || upper(v) == "UTC" {
		return 0, true
	}
	v, tail, named := strings.Cut(v, " ")
	if named && strings.Trim(tail, "0123456789.=+- abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return 0, false
	}
	for _, layout := range []string{"-07:00", "-0700", "-07"} {
		if at, err := time.Parse(layout, v); err == nil {
			_, offset = at.Zone()
			return offset, true
		}
	}
	return 0, false
}
