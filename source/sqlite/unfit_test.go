package sqlite_test

import (
	"strings"
	"testing"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
)

func TestRowsThatHaveNoID(t *testing.T) {
	for _, test := range []struct {
		name, create, want string
	}{
		{"an id is a text", "CREATE TABLE t (id INT UNIQUE NOT NULL); INSERT INTO t VALUES (1), ('x')", "highest id is a text"},
		{"an id is beyond the integers", "CREATE TABLE t (id INT UNIQUE NOT NULL); INSERT INTO t VALUES (1), (1e30)", "highest id is a real"},
		{"an id between others is not an integer", "CREATE TABLE t (id INT UNIQUE NOT NULL); INSERT INTO t VALUES (1), (2.5), (4)", "id 2.5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, test.create)
			sourcetest.Refused(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}), source.ErrUnfit, test.want)
		})
	}
	t.Run("a database that is not there", func(t *testing.T) {
		b := newBase(t, wal)
		sourcetest.Refused(t, b.source.Shard(source.Spec{Table: "shop.t", ID: "id"}), source.ErrMissing, "shop")
	})
	t.Run("a column that needs a function of the application", func(t *testing.T) {
		b := newBase(t, wal)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
		// What an application with a function of its own leaves in the schema.
		b.exec(t, "PRAGMA writable_schema = ON")
		b.exec(t, "UPDATE sqlite_schema SET sql = 'CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, g AS (theirs(v)))' WHERE name = 't'")
		sourcetest.Refused(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}), source.ErrUnfit)
	})
}

func TestTablesOfEveryShape(t *testing.T) {
	for name, create := range map[string]string{
		"INTEGER PRIMARY KEY":              "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)",
		"WITHOUT ROWID":                    "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) WITHOUT ROWID",
		"STRICT and WITHOUT ROWID":         "CREATE TABLE t (v TEXT, id INT PRIMARY KEY) STRICT, WITHOUT ROWID",
		"a unique column":                  "CREATE TABLE t (pk TEXT, id BIGINT NOT NULL UNIQUE, v TEXT)",
		"a unique column, WITHOUT ROWID":   "CREATE TABLE t (v TEXT, id INT NOT NULL UNIQUE, pk TEXT DEFAULT (hex(randomblob(9))), PRIMARY KEY (pk)) WITHOUT ROWID",
		"a descending index":               "CREATE TABLE t (v TEXT, id INT NOT NULL); CREATE UNIQUE INDEX \"odd \"\" name\" ON t (id DESC)",
		"a descending INTEGER PRIMARY KEY": "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY DESC, v TEXT)",
		"generated columns":                "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, g AS (v || '!'), s TEXT AS (v) STORED)",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, create)
			b.exec(t, "INSERT INTO t (id, v) VALUES (30, 'c'), (10, 'a'), (20, 'b')")
			s := b.source.Shard(source.Spec{Table: "t", ID: "id", Fields: []string{"v"}})
			p := sourcetest.Read(t, s, source.Query{Limit: 9})
			if len(p.Rows) != 3 || p.Rows[0].ID != 10 || p.Rows[2].ID != 30 || p.MaxID != 30 {
				t.Fatalf("%d rows, highest %d", len(p.Rows), p.MaxID)
			}
			if p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}), source.Query{After: 10, Limit: 1}); p.Rows[0].ID != 20 {
				t.Fatalf("row %d", p.Rows[0].ID)
			}
		})
	}
}

// Letters beyond ASCII keep their case in every list of columns.
func TestNames(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, \u00c4 TEXT, \u00e4 TEXT); INSERT INTO t VALUES (1, 'upper', 'lower')")
	for want, spec := range map[string]source.Spec{
		"id \u00c4":         {Exclude: []string{"\u00e4"}},
		"id \u00e4":         {Fields: []string{"\u00e4"}},
		"id \u00c4 \u00e4*": {Masks: map[string]source.Mask{"\u00e4": source.Redact()}},
	} {
		spec.Table, spec.ID = "t", "id"
		var got []string
		for _, c := range sourcetest.Read(t, b.source.Shard(spec), source.Query{Limit: 9}).Columns.List {
			got = append(got, c.Name+strings.Repeat("*", min(len(c.Mask), 1)))
		}
		if names := strings.Join(got, " "); names != want {
			t.Errorf("reads %s, want %s", names, want)
		}
	}
}

// AUTOINCREMENT tells of deleted and of truncated rows; without it nothing is told.
func TestNextID(t *testing.T) {
	const counting = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)"
	for _, c := range []struct {
		name, statements string
		want             uint64
	}{
		{"a new table", counting, 1},
		{"behind a deleted row", counting + "; INSERT INTO t VALUES (100); DELETE FROM t", 101},
		{"a table that was reset", counting + "; INSERT INTO t VALUES (100); DELETE FROM t; DELETE FROM sqlite_sequence", 1},
		{"behind the last id", counting + "; INSERT INTO t VALUES (9223372036854775807)", 1 << 63},
		{"a word that is not the keyword", "CREATE TABLE t (id INTEGER PRIMARY KEY /* AUTOINCREMENT */, \"AUTOINCREMENT\" TEXT DEFAULT 'it''s AUTOINCREMENT' -- AUTOINCREMENT\n" +
			", [AUTOINCREMENT x] INT); INSERT INTO t (id) VALUES (5)", 0},
		{"a unique column beside the counter", "CREATE TABLE t (pk INTEGER PRIMARY KEY AUTOINCREMENT, id INT NOT NULL UNIQUE); INSERT INTO t (id) VALUES (5)", 0},
	} {
		b := newBase(t, wal)
		b.exec(t, c.statements)
		if next, err := b.source.Shard(source.Spec{Table: "t", ID: "id"}).NextID(t.Context()); err != nil || next != c.want {
			t.Errorf("%s: next id %d, %v; want %d", c.name, next, err, c.want)
		}
	}
}

func full(name option.Name) string { return "X_" + string(name) }
