package mysql

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func (s tableSpec) quoted() string { return s.table.SQL("`") }

func quoteName(name string) string { return sqltable.Quote("`", name) }

// pageQuery is the statement of a page in the pieces between its numbers. It is composed for each
// statement: thousands of shards would keep more text than rows.
type pageQuery struct {
	upToFrom, byID, byKey, guard string
	id                           idColumn
}

// head is what the first row of a page holds: see parseHead.
func (s *shard) head() string {
	return "CONCAT_WS(' ', UTC_TIMESTAMP(6), " + s.shape.id().highest(s.quoted()) + ", " + s.identity + ")"
}

// Both parts go by index, whose first and only column is the id.
func (s *shard) pageQuery() pageQuery {
	sh, table := s.shape, s.quoted()
	// What is beside the columns, in the row of the head, in the others, and in the guard.
	head, beside, guard := "", "", ""
	if sh.filter != "" {
		head, beside, guard = ", NULL", ", "+source.Unmatched(sh.filter), ", NULL"
	}
	if len(sh.documents.columns) > 0 {
		head += ", (SELECT " + sh.documents.expression() + " FROM " + table + " WHERE FALSE)"
		beside, guard = beside+", NULL", guard+", NULL"
	}
	singles := 0
	for i, column := range sh.columns.List {
		if sh.single[i] {
			// The expression by which it is read has one type, whatever becomes of the column.
			guard += ", t." + quoteName(column.Name)
			singles++
		}
	}
	head += strings.Repeat(", NULL", singles)
	beside += strings.Repeat(", NULL", singles)
	q := pageQuery{
		upToFrom: "(SELECT " + s.head() + sh.empty + head + ") UNION ALL (SELECT NULL" + sh.selected + beside + " FROM " + table,
		byID:     forceIndex(sh.index) + " WHERE ", byKey: forceIndex(sh.key.index) + " WHERE ", id: sh.id(),
	}
	// The guard brings nothing, but the server refuses the statement once the table has another
	// number of columns, and says the types of columns that are read by an expression.
	switch {
	case sh.whole:
		q.guard = " UNION ALL (SELECT NULL, t.*" + guard + " FROM " + table + " AS t LIMIT 0)"
	case sh.starred > 0:
		q.guard = " UNION ALL (SELECT NULL" + sh.empty + guard + " FROM " + table + " AS t WHERE (NULL" + strings.Repeat(", NULL", sh.starred-1) +
			") IN (SELECT * FROM " + table + ") LIMIT 0)"
	case singles > 0:
		q.guard = " UNION ALL (SELECT NULL" + sh.empty + guard + " FROM " + table + " AS t LIMIT 0)"
	}
	return q
}

func forceIndex(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + quoteName(index) + ")"
}

func (p pageQuery) text(q source.Query, limit int) string {
	condition := p.id.above(q.After) + p.id.through(q.Through)
	if q.Ranges != nil {
		condition = inRanges(p.id, q.Ranges)
	}
	return p.upToFrom + p.byID + condition + " ORDER BY " + p.id.name + " LIMIT " + strconv.Itoa(limit) + ")" + p.guard
}

// keysText returns rows in whatever order.
func (p pageQuery) keysText(condition []byte, limit int) string {
	return p.upToFrom + p.byKey + p.id.positive() + " AND (" + string(condition) + ") LIMIT " + strconv.Itoa(limit) + ")" + p.guard
}

// listAtOnce bounds a list of ids: MariaDB makes a join of one with a thousand.
const listAtOnce = 500

// rangesAtOnce bounds the ranges of ids with a format, of which each single one is a range: the
// time in which MariaDB plans a statement grows with their square.
const rangesAtOnce = 100

func (s *server) room(bytes int) int {
	const spare = 512
	return s.packet - bytes - spare
}

// parts splits ranges into those that one statement can ask for beside so many bytes: one at least.
func (s *server) parts(id idColumn, ranges []source.Range, bytes int) (parts [][]source.Range) {
	atOnce := max(1, s.room(bytes)/id.rangeBytes())
	if id.Format != "" {
		atOnce = min(atOnce, rangesAtOnce)
	}
	for len(ranges) > atOnce {
		parts, ranges = append(parts, ranges[:atOnce]), ranges[atOnce:]
	}
	return append(parts, ranges)
}

// inRanges returns the condition that the column id lies in one of ranges. Single ids are lists: a
// server plans a list in a fraction of the time that it needs for as many conditions.
func inRanges(id idColumn, ranges []source.Range) string {
	if len(ranges) == 0 {
		return "FALSE"
	}
	b, listed := []byte{'('}, 0
	single := func(r source.Range) bool { return r.First == r.Last && id.Format == "" }
	for _, r := range ranges {
		if !single(r) {
			continue
		}
		switch {
		case listed%listAtOnce != 0:
			b = append(b, ", "...)
		case listed > 0:
			b = append(b, ") OR "+id.name+" IN ("...)
		default:
			b = append(b, id.name+" IN ("...)
		}
		b = strconv.AppendUint(b, r.First, 10)
		listed++
	}
	if listed > 0 {
		b = append(b, ')')
	}
	for _, r := range ranges {
		if single(r) {
			continue
		}
		if len(b) > 1 {
			b = append(b, " OR "...)
		}
		b = id.between(b, r)
	}
	return string(append(b, ')'))
}

// parseHead reads the clock, the highest id and the identity from the first row of a page.
func (c idColumn) parseHead(head string, p *source.Page) error {
	const clock = "2006-01-02 15:04:05.000000"
	if words := strings.SplitN(head, " ", 4); len(words) == 4 {
		now, err := time.Parse(clock, words[0]+" "+words[1])
		if p.Now, p.Server = now, words[3]; err == nil {
			p.MaxID, err = c.parseHighest(words[2])
		}
		if err == nil || errors.Is(err, source.ErrUnfit) {
			return err
		}
	}
	return malformedHead(head)
}

type malformedHead string

func (m malformedHead) Error() string {
	return "the server's answer about its clock cannot be read: " + strconv.Quote(string(m))
}

// fit says what a comparison with a value of a key can rely on.
type fit uint8

const (
	// never: no row can hold the value.
	never fit = iota
	// odd: rows may hold it, but no literal is sure to find them. It is compared as it is read.
	odd
	// sound: the literal finds every row that holds it, by the index.
	sound
)

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]{1,20}$`)
	// A DECIMAL has 65 digits at most.
	exactNumber = regexp.MustCompile(`^-?[0-9]{1,65}(\.[0-9]{1,38})?$`)
	timeForms   = map[source.Kind]*regexp.Regexp{
		source.Date:      regexp.MustCompile(`^\d{4}-\d\d-\d\d$`),
		source.Clock:     regexp.MustCompile(`^-?[0-8]?\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
		source.DateTime:  regexp.MustCompile(`^\d{4}-\d\d-\d\d [0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
		source.Timestamp: regexp.MustCompile(`^\d{4}-\d\d-\d\d [0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?$`),
	}
)

// fit looks at v, a value in the normal form of the part's kind.
func (k keyPart) fit(v []byte) fit {
	if v == nil {
		// The columns of the index are NOT NULL.
		return never
	}
	form := timeForms[k.kind]
	switch k.kind {
	case source.Int:
		form = wholeNumber
	case source.Decimal:
		form = exactNumber
	case source.Bit:
		return when(len(v) > 0 && len(v) <= 8)
	case source.Binary:
		return sound
	case source.Text, source.JSON:
		return k.fitText(v)
	}
	if form == nil || !form.Match(v) {
		return never
	}
	if k.kind == source.Date || k.kind == source.DateTime || k.kind == source.Timestamp {
		// A column may hold a date that no calendar knows, but some servers refuse it in a
		// statement. The zero date is none of these.
		if _, known := (source.Column{Kind: k.kind}).Time(v, nil); !known && string(v[:len("0000-00-00")]) != "0000-00-00" {
			return odd
		}
	}
	return sound
}

func when(sure bool) fit {
	if sure {
		return sound
	}
	return never
}

// appendCondition appends the SQL for rows that hold v, which is not never, in the column. It means
// the same whatever the modes of the session, and nothing in v can leave it.
func (k keyPart) appendCondition(b, v []byte, written encodings) []byte {
	if k.fit(v) == odd {
		return k.appendAsRead(b, v)
	}
	b = append(append(b, k.name...), " = "...)
	switch k.kind {
	case source.Int, source.Decimal:
		return append(b, v...)
	case source.Bit:
		var bits [8]byte
		copy(bits[8-len(v):], v)
		return strconv.AppendUint(b, binary.BigEndian.Uint64(bits[:]), 10)
	case source.Binary:
		return appendHex(b, v)
	case source.Text, source.JSON:
		return k.appendText(b, v, written)
	}
	return append(append(append(b, '\''), v...), '\'')
}

// appendAsRead compares what a client reads, byte for byte. No index helps with that.
func (k keyPart) appendAsRead(b, v []byte) []byte {
	read := "CONVERT(" + k.name + " USING utf8mb4)"
	if k.charset() == "utf8mb4" {
		read = k.name
	} else if k.collation == "" {
		read = "CAST(" + k.name + " AS CHAR)"
	}
	return appendHex(append(b, "CAST("+read+" AS BINARY) = "...), v)
}

func appendHex(b, v []byte) []byte {
	return append(hex.AppendEncode(append(b, "x'"...), v), '\'')
}

func (t *inspection) checkFilter(ctx context.Context, c conn) error {
	return t.CheckFilter(func(where string) (fault string, err error) {
		from := "SELECT 1 FROM " + t.quoted()
		switch err = c.query(ctx, from+where, nil); number(err) {
		case 0:
			if err == nil {
				t.checkFilterClock()
			}
			return "", err
		case erLockWait, erDeadlock, erInterrupted, erStatementTimeMariaDB, erStatementTime:
			return "", err
		case erTableAccessDenied, erColAccessDenied:
			t.Found(inspect.Unsafe, inspect.NoGrant, "has a condition on columns that this login may not read: %v", err).
				Says("let an administrator run").Types("%s;", t.source.grant(t.quoted()))
			return "", nil
		}
		if without := c.query(ctx, from+" LIMIT 0", nil); without != nil {
			return "", without
		}
		return err.Error(), nil
	})
}

// filterClock are the functions that read the clock in the zone of the session.
var filterClock = regexp.MustCompile(`(?i)\b(NOW|SYSDATE|CURDATE|CURTIME|UNIX_TIMESTAMP|CURRENT_DATE|CURRENT_TIME|CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP)\b`)

// checkFilterClock warns of a condition that reads the clock, which is UTC, where the columns or
// the other sessions of the server have another zone.
func (t *inspection) checkFilterClock() {
	zone := cmp.Or(t.Expected.Zone, time.UTC)
	_, offset := time.Now().In(zone).Zone()
	// It was accepted.
	bare, _, _ := source.Unquoted(t.spec.Filter)
	word := filterClock.FindString(bare)
	if word == "" || offset == 0 && (t.server.zone == nil || *t.server.zone == 0) {
		return
	}
	t.Found(inspect.Warning, inspect.TimeZone, "has a condition on its rows with %s, which is the time in UTC in the sessions of bridge, where TIME_ZONE is %s", word, zone).
		Says("nothing where %s compares it with a TIMESTAMP; compare a DATETIME of another zone with UTC_TIMESTAMP() and the difference, such as UTC_TIMESTAMP() + INTERVAL 8 HOUR", option.Filter)
}
