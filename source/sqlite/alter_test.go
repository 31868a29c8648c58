package sqlite_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"bridge/source"
	"bridge/source/sqlite"
)

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// altered is a table that a shard has read once.
func altered(t *testing.T, sp source.Spec) (base, source.Shard, *logBuffer) {
	t.Helper()
	logs := new(logBuffer)
	b := newBase(t, wal, func(o *sqlite.Options) { o.Logger = slog.New(slog.NewTextHandler(logs, nil)) })
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	sp.Table, sp.ID = "t", "id"
	s := b.source.Shard(sp)
	read(t, s, source.Query{Limit: 9})
	return b, s, logs
}

func TestAlteredTable(t *testing.T) {
	t.Run("a dropped column is noticed at the next page and logged once", func(t *testing.T) {
		b, s, logs := altered(t, source.Spec{})
		b.exec(t, "ALTER TABLE t DROP n")
		for range 3 {
			if p := read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 3 {
				t.Fatalf("columns %v", p.Columns.List)
			}
		}
		if got := logs.String(); strings.Count(got, "columns changed") != 1 || !strings.Contains(got, "dropped=n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("an added column is noticed at the next page", func(t *testing.T) {
		b, s, logs := altered(t, source.Spec{})
		b.exec(t, "ALTER TABLE t ADD extra BLOB DEFAULT x'ff'")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 5 || string(p.Rows[0].Values[4]) != "\xff" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := logs.String(); !strings.Contains(got, "added=extra") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("a renamed column is dropped and added", func(t *testing.T) {
		b, s, logs := altered(t, source.Spec{})
		b.exec(t, "ALTER TABLE t RENAME n TO m")
		if p := read(t, s, source.Query{Limit: 9}); p.Columns.List[2].Name != "m" || string(p.Rows[0].Values[2]) != "1" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := logs.String(); !strings.Contains(got, "added=m dropped=n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("a table remade with other types and another order is noticed at the next page", func(t *testing.T) {
		b, s, logs := altered(t, source.Spec{})
		b.exec(t, "BEGIN; CREATE TABLE new (at TEXT, n TEXT, id INTEGER PRIMARY KEY, name TEXT); INSERT INTO new SELECT at, n, id, name FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT")
		p := read(t, s, source.Query{Limit: 9})
		if p.Columns.ID != 2 || p.Columns.List[1].Kind != source.Text || string(p.Rows[0].Values[0]) != "2026-01-02 03:04:05" || string(p.Rows[0].Values[3]) != "a" {
			t.Fatalf("columns %v, values %q", p.Columns.List, p.Rows[0].Values)
		}
		if got := logs.String(); !strings.Contains(got, "altered=at,n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("a table that lost its unique index stops the shard", func(t *testing.T) {
		b, s, _ := altered(t, source.Spec{})
		b.exec(t, "BEGIN; CREATE TABLE new AS SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrUnfit) {
			t.Fatalf("error %v", err)
		}
		b.exec(t, "CREATE TABLE new (id INTEGER PRIMARY KEY, name, n, at DATETIME); INSERT INTO new SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("after the repair: %d rows", len(p.Rows))
		}
	})
	t.Run("a dropped column with a role stops the shard", func(t *testing.T) {
		b, s, _ := altered(t, source.Spec{Created: "at"})
		b.exec(t, "ALTER TABLE t DROP at")
		err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
		if !errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "CREATED") {
			t.Fatalf("error %v", err)
		}
		b.exec(t, "ALTER TABLE t ADD at DATETIME")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("after the repair: %d rows", len(p.Rows))
		}
	})
	t.Run("a dropped table stops the shard", func(t *testing.T) {
		b, s, _ := altered(t, source.Spec{})
		b.exec(t, "DROP TABLE t")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("another table and a column outside the spec change nothing", func(t *testing.T) {
		b, s, logs := altered(t, source.Spec{Fields: []string{"name"}})
		first := read(t, s, source.Query{Limit: 9}).Columns
		b.exec(t, "CREATE TABLE other (x); ALTER TABLE t DROP n; VACUUM")
		if p := read(t, s, source.Query{Limit: 9}); p.Columns != first {
			t.Fatal("another pointer")
		}
		if got := logs.String(); got != "" {
			t.Fatalf("log %q", got)
		}
	})
}
