package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	codes "modernc.org/sqlite/lib"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func (s *shard) readPage(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	if q.Keys != nil {
		return s.readKeys(ctx, c, q, p)
	}
	p.Columns, p.Server = s.shape.columns, c.identity
	// Before the snapshot is taken, and without the monotonic reading that a database has not.
	p.Now = time.Now().UTC().Round(0)
	enough, first, before := false, 0, 0
	full, err := s.readRows(ctx, c, s.page(q), nil, func(row []driver.Value) (full bool, err error) {
		id, err := s.shape.ids.number(row[s.shape.columns.ID])
		n, shared := len(p.Rows), s.shape.ids.Format != ""
		switch {
		case err != nil:
			// Behind a full page, too: it may lie among the rows of the last id, behind which the
			// next page begins.
			return false, err
		case enough && id != p.Rows[n-1].ID:
			return true, nil
		case n > 0 && (id < p.Rows[n-1].ID || id == p.Rows[n-1].ID && !shared):
			return false, fmt.Errorf("%w: the id %d came after %d although its index is in order: look at the file with PRAGMA integrity_check", source.ErrUnfit, id, p.Rows[n-1].ID)
		}
		if n == 0 || id != p.Rows[n-1].ID {
			first, before = n, p.Bytes
		}
		if err := s.appendRow(id, row, p); err != nil {
			return false, err
		}
		if sharing, size := n+1-first, p.Bytes-before; shared && (sharing > source.SharingRows || size >= source.SharingBytes) {
			return false, s.shape.ids.Crowded(p.Rows[first].Values[s.shape.columns.ID], sharing, size)
		}
		enough = len(p.Rows) >= q.Limit || q.MaxBytes > 0 && p.Bytes >= q.MaxBytes
		return enough && !shared, nil
	}, p)
	p.More = full || enough
	return err
}

// readRows reads the head into p and hands the rows to take, until that has enough.
func (s *shard) readRows(ctx context.Context, c *session, statement string, args []driver.NamedValue, take func([]driver.Value) (bool, error), p *source.Page) (full bool, err error) {
	rows, err := c.QueryContext(ctx, statement, args)
	if err != nil {
		return false, err
	}
	row, headed := make([]driver.Value, len(rows.Columns())), false
	full, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
		if headed {
			return take(row[1:])
		}
		headed = true
		return false, s.readHead(sqltable.Text(row[0]), p)
	})
	if err == nil && !headed {
		err = errStale
	}
	// Closing ends the snapshot, whether all of it was read or not.
	return full, sqltable.Close(rows, err)
}

func (s *shard) appendRow(id uint64, row []driver.Value, p *source.Page) error {
	width := len(s.shape.columns.List)
	p.Append(id, width)
	if len(row) > width && row[width] != nil {
		p.Filter()
	}
	for i, v := range row[:width] {
		if v == nil {
			continue
		}
		var err error
		if s.scratch, err = s.shape.values[i].append(s.emptied(), v); err != nil {
			return fmt.Errorf("column %q: %w", s.shape.columns.List[i].Name, err)
		}
		p.Set(i, s.masks.Hide(i, s.scratch))
	}
	return nil
}

// emptied returns the scratch memory, which is never nil: that would be NULL.
func (s *shard) emptied() []byte {
	const keepBytes = 1 << 20
	if s.scratch == nil || cap(s.scratch) > keepBytes {
		s.scratch = make([]byte, 0, 64)
	}
	return s.scratch[:0]
}

func (s *shard) quoted() string { return s.table.SQL(`"`) }

func quoteName(name string) string { return sqltable.Quote(`"`, name) }

type queries struct {
	// byKey has keysSlot where the keys go; read is the condition of rows that are read.
	byKey, table, read string
	// changes has the parameters from (included) and to (not included); greatest reads the greatest
	// MODIFIED. Both are "" when no index begins with MODIFIED.
	changes, greatest string
}

// keysSlot cannot stand in a statement otherwise.
const keysSlot = "\x00"

func (s *shard) newQueries(sh *shape) queries {
	t, id := s.quoted(), sh.ids.name
	q := queries{byKey: pageQuery(t, sh, keysSlot), table: t, read: id + " > 0"}
	if sh.ids.Format != "" {
		q.read = "TRUE"
	}
	if m := sh.modified; m.by != "" {
		from := " FROM " + t + " " + m.by + " WHERE " + m.column
		q.changes = "SELECT " + m.column + ", " + id + from + " >= ?1 AND " + m.column + " < ?2 AND " + q.read + " ORDER BY " + m.column
		q.greatest = "SELECT MAX(" + m.column + ") AS greatest, typeof(MAX(" + m.column + ")) AS class FROM " + t + " " + m.by
	}
	return q
}

// pageQuery composes a statement of a page. Both parts go by the index of the id; the second is a
// subquery because ORDER BY and LIMIT would else hold for both.
func pageQuery(t string, sh *shape, from string) string {
	var b strings.Builder
	// In hex, behind its class: text and blobs are above all numbers.
	const highest = "CASE typeof(m) WHEN 'null' THEN '0' ELSE typeof(m) || ' ' || hex(m) END"
	b.WriteString("SELECT (SELECT schema_version FROM pragma_schema_version) || ' ' || (SELECT " + highest + " FROM (SELECT MAX(" + sh.ids.name + ") AS m FROM " + t + "))")
	beside, none := "", ""
	if sh.filter != "" {
		beside, none = ", "+source.Unmatched(sh.filter), ", NULL"
	}
	b.WriteString(strings.Repeat(", NULL", len(sh.columns.List)) + none)
	b.WriteString(" UNION ALL SELECT * FROM (SELECT NULL")
	for _, column := range sh.columns.List {
		name := quoteName(column.Name)
		if column.Kind == source.JSON {
			// JSONB becomes text, if it is not the text of a document in the bytes of a blob.
			name = "CASE WHEN typeof(" + name + ") = 'blob' AND NOT json_valid(CAST(" + name + " AS TEXT)) AND json_valid(" + name + ", 8) " +
				"THEN json(" + name + ") ELSE " + name + " END"
		}
		b.WriteString(", " + name)
	}
	b.WriteString(beside + " FROM " + from + ")")
	return b.String()
}

// readHead reads the first column of a page's first row: the schema version and the highest id, 0
// where there is none, else in hex behind its class.
func (s *shard) readHead(head string, p *source.Page) (err error) {
	version, highest, _ := strings.Cut(head, " ")
	class, digits, _ := strings.Cut(highest, " ")
	v, err := hex.DecodeString(digits)
	ids := s.shape.ids
	switch {
	case version != s.version || p.Server != s.identity:
		return errStale
	case err != nil:
		return fmt.Errorf("the first row of the page cannot be read: %q", head)
	case highest == "0":
	case ids.Format == "" && class != "integer":
		return fmt.Errorf("%w: the highest id is a %s, not an integer: correct or delete the row", source.ErrUnfit, class)
	case ids.Format == "":
		var id int64
		id, err = strconv.ParseInt(string(v), 10, 64)
		p.MaxID = uint64(max(id, 0))
	case class == "text":
		p.MaxID, err = ids.number(string(v))
	case class == "blob":
		p.MaxID, err = ids.number(v)
	default:
		p.MaxID, err = ids.number(nil)
	}
	return err
}

func (t *inspection) checkFilter(ctx context.Context, c *session) error {
	return t.CheckFilter(func(where string) (fault string, err error) {
		// It was accepted.
		_, double, _ := source.Unquoted(t.Spec.Filter)
		for _, name := range double {
			if t.Table.At(name) < 0 && upper(name) != upper(t.table.Table) {
				// SQLite would take it for a text, without an error where it is a column misspelt.
				return fmt.Sprintf("it has %q in double quotes, which is not a column: write texts in single quotes", name), nil
			}
		}
		if err = c.query(ctx, "SELECT 1 FROM "+t.quoted()+where, nil); number(err) == codes.SQLITE_ERROR {
			return err.Error(), nil
		}
		return "", err
	})
}

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
		switch at, ok := f.textTime(v); {
		case ok && inRange(at.UTC()):
			return at.UTC().AppendFormat(b, timestampLayout)
		case ok && (source.Column{Kind: f.kind}).IsTime([]byte(v)):
			// Alone it would be that time in UTC.
			return append(append(append(b, v...), ' '), f.zone.String()...)
		}
	}
	return append(b, v...)
}

// appendReal writes an integer without an exponent, infinite numbers as "Inf" and "-Inf".
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

// unixTime takes no REAL: SQLite's date functions take one for a Julian day.
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

// layoutOf returns "" for what is no day, and no day with a time of day behind a T or a blank. Go
// reads the digits of a fraction where the layout has none.
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
