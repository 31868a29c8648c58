package sqlite_test

import (
	"errors"
	"strings"
	"testing"

	"bridge/source"
)

// altered is a table that a shard has read once.
func altered(t *testing.T) (base, source.Shard) {
	t.Helper()
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	read(t, s, source.Query{Limit: 9})
	return b, s
}

func TestAlteredTable(t *testing.T) {
	t.Run("a table remade with other types and another order is noticed at the next page", func(t *testing.T) {
		b, s := altered(t)
		b.exec(t, "BEGIN; CREATE TABLE new (at TEXT, n TEXT, id INTEGER PRIMARY KEY, name TEXT); INSERT INTO new SELECT at, n, id, name FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT")
		p := read(t, s, source.Query{Limit: 9})
		if p.Columns.ID != 2 || p.Columns.List[1].Kind != source.Text || string(p.Rows[0].Values[0]) != "2026-01-02 03:04:05" || string(p.Rows[0].Values[3]) != "a" {
			t.Fatalf("columns %v, values %q", p.Columns.List, p.Rows[0].Values)
		}
		if got := b.log.Drain(); !strings.Contains(got, "altered=at,n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("a table that lost its unique index stops the shard", func(t *testing.T) {
		b, s := altered(t)
		b.exec(t, "BEGIN; CREATE TABLE new AS SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrUnfit) {
			t.Fatalf("error %v", err)
		}
		b.exec(t, "CREATE TABLE new (id INTEGER PRIMARY KEY, name, n, at DATETIME); INSERT INTO new SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("after the repair: %d rows", len(p.Rows))
		}
	})
	t.Run("a dropped table stops the shard", func(t *testing.T) {
		b, s := altered(t)
		b.exec(t, "DROP TABLE t")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
	})
}
