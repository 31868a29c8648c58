package source

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"time"
	"unicode/utf8"
)

// Changes returns the differences from c to now as log attributes: the names of columns added,
// dropped and altered.
func (c *Columns) Changes(now *Columns) []any {
	was := make(map[string]Column)
	for _, column := range c.List {
		was[column.Name] = column
	}
	changed := make(map[string][]string)
	for _, column := range now.List {
		if before, ok := was[column.Name]; !ok {
			changed["added"] = append(changed["added"], column.Name)
		} else if before != column {
			changed["altered"] = append(changed["altered"], column.Name)
		}
		delete(was, column.Name)
	}
	for _, column := range c.List {
		if _, gone := was[column.Name]; gone {
			changed["dropped"] = append(changed["dropped"], column.Name)
		}
	}
	var attributes []any
	for _, change := range []string{"added", "dropped", "altered"} {
		if names := changed[change]; names != nil {
			attributes = append(attributes, change, strings.Join(names, ","))
		}
	}
	return attributes
}

// Cursor is a position in the order of (MODIFIED, id). The zero value is before everything.
type Cursor struct {
	// Modified is the value of the MODIFIED column in its normal form, or the text of the id where
	// that is the time.
	Modified string
	ID       uint64
	// Row is the text of the id where ids have a format: rows of one id differ in it. It is not
	// saved; a cursor without it is before all rows of its Modified.
	Row string
}

// Compare compares two cursors by their order.
func (c Cursor) Compare(other Cursor) int {
	return cmp.Or(cmp.Compare(c.Modified, other.Modified), cmp.Compare(c.ID, other.ID), cmp.Compare(c.Row, other.Row))
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
	// Rows, where ids have a format, are the texts of the ids in Ranges that are wanted: others
	// that have the same numbers need not come.
	Rows []string
	// Uncommitted includes rows of open transactions, in their uncommitted state. It and Ranges
	// need Traits.Uncommitted.
	Uncommitted bool
}

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
	// begins with MODIFIED, or by that of the id where Columns.ByID says so. It fails with ErrUnfit
	// if the spec names no MODIFIED column or no index begins with it, and with ErrAltered if the
	// values of the query are of another kind than the column's. It leaves out rows whose MODIFIED
	// is NULL.
	ReadChanges(ctx context.Context, q ChangeQuery, c *Changes) error
}

// Time reads v, a value of the column in its normal form, as a moment in UTC: a Timestamp as it
// stands, a DateTime as the wall clock of zone, a Date as the midnight of zone; a nil zone is UTC.
// It is false for NULL, for a date that is zero or has a zero month or day, for one that no
// calendar knows, for years outside 0 to 9999, and for the kinds that are not times. It does not
// allocate.
//
// A wall clock that zone shows twice or skips (the change of summer time) is read as time.Date
// reads it.
func (c Column) Time(v []byte, zone *time.Location) (time.Time, bool) {
	if c.Format != "" {
		return c.Format.time(v)
	}
	if c.Kind == Timestamp || zone == nil {
		zone = time.UTC
	}
	w, ok := c.wall(v)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(w.year, time.Month(w.month), w.day, w.hour, w.minute, w.second, w.nanos, zone).UTC()
	return t, t.Year() >= 0 && t.Year() <= 9999
}

// IsTime reports whether Time reads v as a moment, without making one.
func (c Column) IsTime(v []byte) bool {
	_, ok := c.wall(v)
	return ok
}

type wall struct{ year, month, day, hour, minute, second, nanos int }

func (c Column) wall(v []byte) (w wall, ok bool) {
	const day = len(time.DateOnly)
	switch c.Kind {
	case Date:
		ok = len(v) == day
	case DateTime, Timestamp:
		ok = len(v) >= len(time.DateTime)
	}
	if !ok {
		return w, false
	}
	w.year, w.month, w.day = digits(v[:4]), digits(v[5:7]), digits(v[8:day])
	ok = w.year >= 0 && v[4] == '-' && v[7] == '-' && w.month >= 1 && w.month <= 12 && w.day >= 1 &&
		(w.day <= 28 || w.day <= time.Date(w.year, time.Month(w.month)+1, 0, 0, 0, 0, 0, time.UTC).Day())
	if !ok || c.Kind == Date {
		return w, ok
	}
	v = v[day:]
	w.hour, w.minute, w.second = digits(v[1:3]), digits(v[4:6]), digits(v[7:9])
	w.nanos, ok = parseFraction(v[9:])
	ok = ok && v[0] == ' ' && v[3] == ':' && v[6] == ':' && w.hour >= 0 && w.hour <= 23 &&
		w.minute >= 0 && w.minute <= 59 && w.second >= 0 && w.second <= 59
	return w, ok
}

// digits reads v as a number, -1 where it has anything but digits.
func digits(v []byte) (n int) {
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// parseFraction reads "", or a point and one to nine digits, as nanoseconds.
func parseFraction(v []byte) (nanos int, ok bool) {
	if len(v) == 0 {
		return 0, true
	}
	if v[0] != '.' || len(v) == 1 || len(v) > 10 {
		return 0, false
	}
	if nanos = digits(v[1:]); nanos < 0 {
		return 0, false
	}
	for range 10 - len(v) {
		nanos *= 10
	}
	return nanos, true
}

// Text writes the moment t as a value of the column in its normal form, rounded down to the
// column's precision: a Timestamp in UTC, a DateTime as the wall clock of zone, a Date as the day
// in zone; a nil zone is UTC. It is the inverse of Time where a wall clock shows a moment once. It
// is "" for a kind that is not a time, and for years outside 0 to 9999, which have no normal form.
func (c Column) Text(t time.Time, zone *time.Location) string {
	if c.Format != "" {
		return c.Format.text(t)
	}
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

// Mask replaces the values of a column as they are read, before anything is made of them: no event,
// digest, dead letter or log has the value itself. A masked value is a Text; NULL stays NULL.
type Mask struct {
	form   maskForm
	key    string
	mac    hash.Hash
	sum    []byte
	hidden []byte
}

// Masks are the masks of the columns of a shard, nil for a column without one; none at all is nil.
type Masks []*Mask

// Hide returns what stands for a value of a column: v itself where it has no mask. It is valid
// until the next call for that column. v must not be nil.
func (m Masks) Hide(column int, v []byte) []byte {
	if m == nil || m[column] == nil {
		return v
	}
	m[column].hidden = m[column].Append(m[column].hidden[:0], v)
	return m[column].hidden
}

type maskForm uint8

const (
	maskRedact maskForm = iota
	maskSHA256
	maskLast4
)

const redacted = "****"

// Redact returns a mask that hides the whole value behind four asterisks.
func Redact() Mask { return Mask{form: maskRedact} }

// Last4 returns a mask that shows the last four characters behind four asterisks, and nothing of a
// value with fewer than nine.
func Last4() Mask { return Mask{form: maskLast4} }

// SHA256 returns a mask that makes of each value its HMAC-SHA-256 under a key, in 64 hexadecimal
// digits: equal values stay equal, and without the key nobody can try values out.
func SHA256(key string) Mask { return Mask{form: maskSHA256, key: key} }

// Fresh returns the mask with memory of its own. A mask serves one goroutine.
func (m Mask) Fresh() *Mask {
	fresh := &Mask{form: m.form, key: m.key}
	if m.form == maskSHA256 {
		fresh.mac = hmac.New(sha256.New, []byte(m.key))
	}
	return fresh
}

// String returns the form of the mask: a key is nowhere printed.
func (m Mask) String() string {
	return map[maskForm]string{maskRedact: "redact", maskSHA256: "sha256", maskLast4: "last4"}[m.form]
}

func (m Mask) GoString() string { return m.String() }

// Name tells the mask from every other one, by what it makes of a value: it holds no key.
func (m Mask) Name() string {
	return m.String() + ":" + string(m.Fresh().Append(nil, []byte("bridge")))
}

// Append appends what stands for a value. The mask must be fresh.
func (m *Mask) Append(dst, v []byte) []byte {
	switch m.form {
	case maskSHA256:
		m.mac.Reset()
		m.mac.Write(v)
		m.sum = m.mac.Sum(m.sum[:0])
		return hex.AppendEncode(dst, m.sum)
	case maskLast4:
		dst = append(dst, redacted...)
		at := len(v)
		for range 4 {
			_, size := utf8.DecodeLastRune(v[:at])
			at -= size
		}
		if utf8.RuneCount(v[:at]) < 5 {
			return dst
		}
		return append(dst, v[at:]...)
	default:
		return append(dst, redacted...)
	}
}
