package sourcetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// Row is a row of the suite's tables.
type Row struct {
	ID uint64
	// Name is never NULL.
	Name string
	// Note is NULL where nil.
	Note *string
}

// Fixture gives the suite a source and the means to change what it reads. The functions fail the
// test when they cannot do what they should.
type Fixture struct {
	// Source is the source under test, with columns read again at every Read or as soon as they
	// change. The fixture closes it.
	Source source.Source
	// NewTable creates an empty table that no other test uses and returns its name for source.Spec.
	// Its columns are id (the widest unsigned integer that the database has, primary key), name and
	// note (text, 1 MiB and more, note nullable) and created (a time with at least milliseconds, by
	// default the database's clock).
	NewTable func(t *testing.T) string
	// Insert adds rows in the given order and commits.
	Insert func(t *testing.T, table string, rows ...Row)
	// NewKeyed creates an empty table like NewTable. Its columns are id, name (text of up to 100
	// characters, never NULL), part (a signed integer, never NULL), ratio (a floating-point number)
	// and modified (a time with milliseconds or more, in UTC, nullable); (name, part) is unique,
	// and an index begins with modified.
	NewKeyed func(t *testing.T) string
	// InsertKeyed adds rows and commits, Touch changes modified of one: "2006-01-02 15:04:05.000",
	// empty for NULL.
	InsertKeyed func(t *testing.T, table string, rows ...KeyedRow)
	Touch       func(t *testing.T, table string, id uint64, modified string)
	// Exec runs a statement of the dialect that all databases have, in which names stand in the
	// quotes of Quote. Nil for a source without SQL.
	Exec  func(t *testing.T, statement string, args ...any)
	Quote string
	// AddColumn adds a nullable text column, DropColumn drops one.
	AddColumn, DropColumn func(t *testing.T, table, column string)
	// Uncommitted inserts a row and leaves its transaction open until commit is called. Nil where
	// readers and writers exclude each other.
	Uncommitted func(t *testing.T, table string, row Row) (commit func())
	// TouchOpen is Touch in a transaction that stays open until end is called. Nil where nothing
	// uncommitted can be read.
	TouchOpen func(t *testing.T, table string, id uint64, modified string) (end func(commit bool))
	// Log has what Source logs; nil where it logs nothing.
	Log *Log
	// HighestID is the highest id that the database can hold.
	HighestID uint64
}

// Log collects what is logged. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// String returns what was logged since the last Drain.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// Drain takes that away.
func (l *Log) Drain() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.lines.Reset()
	return l.lines.String()
}

// Run checks the source of the fixtures that open returns; every part of the suite opens its own.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"pages follow one another in the order of ids, within their bounds", testPages},
		{"a byte budget ends a page after the row that reaches it", testBudget},
		{"rows and ids are read by ranges", testRanges},
		{"columns play the roles of the spec", testColumns},
		{"masks replace values", testMasks},
		{"a condition is told of each row, and hides none", testFilter},
		{"a condition that is none is refused", testBadFilter},
		{"tables and columns may have any name", testNames},
		{"ids below 1 are not read", testLowIDs},
		{"columns stay the same pointer until the table is altered", testAlter},
		{"what is missing is named", testMissing},
		{"a cancelled read tells why, and shards are read side by side", testConcurrent},
		{"what is not committed is not read", testUncommitted},
		{"rows are found by their keys", testKeys},
		{"a thousand keys are found in one read", testManyKeys},
		{"keys need a unique index and exact values", testUnfitKeys},
		{"changes come in the order of MODIFIED and id", testChanges},
		{"changes need an index on MODIFIED", testNoChanges},
		{"changes in flight are shown where the traits say so", testChangesInFlight},
		{"ids that are not integers keep their order, and rows of one number come together", testFormats},
		{"an id that does not have the format is met", testBadFormats},
		{"rows of one number are bounded, and single ones are asked for in their thousands", testManyFormats},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

// timeout bounds every call; a source that needs longer is broken.
const timeout = 2 * time.Minute

func spec(table string) source.Spec {
	return source.Spec{Table: table, ID: "id", Created: "created"}
}

// Read reads a page, and checks what is true of every page.
func Read(t testing.TB, s source.Shard, q source.Query) *source.Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var p source.Page
	must.OK(t, s.Read(ctx, q, &p))
	checkPage(t, q, &p)
	return &p
}

// Holds ends the test unless a page of the shard has so many rows.
func Holds(t testing.TB, s source.Shard, rows int) {
	t.Helper()
	if p := Read(t, s, source.Query{Limit: 5000}); len(p.Rows) != rows {
		t.Fatalf("%d rows, want %d", len(p.Rows), rows)
	}
}

// Same fails the test unless what was got is what is wanted.
func Same[T comparable](t testing.TB, got, want []T, of string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf(of+": %v, want %v", append(args, got, want)...)
	}
}

// Refused fails the test unless a read of the shard fails with want, or where that is nil with an
// error that trying again may heal, and names the words.
func Refused(t *testing.T, s source.Shard, want error, words ...string) {
	t.Helper()
	err := s.Read(t.Context(), source.Query{Limit: 5000}, new(source.Page))
	Transient(t, err, want)
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("error %v, want one with %q", err, word)
		}
	}
}

// Transient fails the test unless err is one that trying again may heal, or want if that is not
// nil.
func Transient(t *testing.T, err, want error) {
	t.Helper()
	for _, class := range []error{source.ErrMissing, source.ErrDenied, source.ErrUnfit} {
		if err == nil || errors.Is(err, class) != (class == want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
}

func checkPage(t testing.TB, q source.Query, p *source.Page) {
	t.Helper()
	if p.Columns == nil || p.Now.IsZero() || p.Now.Location() != time.UTC || p.Server == "" {
		t.Fatalf("page without columns (%v), clock (%v) or server (%q)", p.Columns, p.Now, p.Server)
	}
	// Rows of one number come together, whatever the bounds of a page.
	last, size, together := q.After, 0, p.Columns.IDFormat != ""
	if q.Keys != nil || q.Ranges != nil {
		last = 0
	}
	for i, r := range p.Rows {
		if r.ID < last || r.ID == last && (i == 0 || !together) || q.Through > 0 && r.ID > q.Through || r.ID > p.MaxID {
			t.Fatalf("id %d after %d, through %d, highest %d", r.ID, last, q.Through, p.MaxID)
		}
		last = r.ID
		if len(r.Values) != len(p.Columns.List) {
			t.Fatalf("%d values for %d columns", len(r.Values), len(p.Columns.List))
		}
		if q.MaxBytes > 0 && size >= q.MaxBytes && !together {
			t.Fatalf("row %d although %d bytes came before, budget %d", i, size, q.MaxBytes)
		}
		for _, v := range r.Values {
			size += len(v)
		}
	}
	if size != p.Bytes || len(p.Rows) > q.Limit && !together {
		t.Fatalf("%d rows of %d bytes, page says %d, limit %d", len(p.Rows), size, p.Bytes, q.Limit)
	}
	if len(p.Rows) == q.Limit && !p.More && !together {
		t.Fatal("a page at its limit must say that there may be more")
	}
}

// IDs returns those of the rows of a page.
func IDs(p *source.Page) (ids []uint64) {
	for _, r := range p.Rows {
		ids = append(ids, r.ID)
	}
	return ids
}

func readAll(t *testing.T, s source.Shard, q source.Query) (ids []uint64) {
	t.Helper()
	for {
		p := Read(t, s, q)
		if ids = append(ids, IDs(p)...); !p.More {
			return ids
		}
		if len(p.Rows) == 0 {
			t.Fatal("an empty page says that there is more")
		}
		q.After = p.Rows[len(p.Rows)-1].ID
	}
}

func value(t *testing.T, p *source.Page, r source.Row, column string) []byte {
	t.Helper()
	for i, c := range p.Columns.List {
		if c.Name == column {
			return r.Values[i]
		}
	}
	t.Fatalf("no column %s in %v", column, p.Columns.List)
	return nil
}
