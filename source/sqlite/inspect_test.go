package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
)

// healthy is a table in which nothing is found.
const healthy = `CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL, b TEXT NOT NULL, state TEXT,
	created TEXT NOT NULL DEFAULT (strftime('%F %T.%f')), modified TEXT NOT NULL DEFAULT '2026-01-01', UNIQUE (b, a));
	CREATE INDEX by_modified ON t (modified); INSERT INTO t (a, b) VALUES ('x', 'y'), ('x', 'z')`

// unnamed finds a setting that its user's naming has not named.
var unnamed = regexp.MustCompile(`\b(with|correct|or|set) (TABLE|ID|ID_ORDER|KEY|CREATED|MODIFIED|DELETED|FIELDS|TIME_ZONE)\b`)

func TestInspect(t *testing.T) {
	position := func(id uint64) *uint64 { return &id }
	for _, test := range []struct {
		name string
		// table is created in place of the healthy one.
		table  string
		change func(*source.Expected)
		want   []string
		// refused says that the tail refuses the table, too.
		refused bool
	}{
		{name: "nothing in a healthy table"},
		{name: "no table", change: func(e *source.Expected) { e.Spec.Table = "u" }, want: []string{"unsafe no-table"}, refused: true},
		{name: "every column that is not there", change: func(e *source.Expected) { e.Spec.Created, e.Spec.Fields = "born", []string{"a", "c"} },
			want: []string{"unsafe no-column", "unsafe no-column"}, refused: true},
		{name: "an id that is a text", change: func(e *source.Expected) { e.Spec.ID = "a" }, want: []string{"unsafe id-type"}, refused: true},
		{name: "an id that is not unique", table: "CREATE TABLE t (id INTEGER NOT NULL, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"unsafe id-not-unique"}, refused: true},
		{name: "an id that is a boolean", table: "CREATE TABLE t (id BOOLEAN PRIMARY KEY NOT NULL, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"unsafe id-type"}, refused: true},
		{name: "an id of no type", table: "CREATE TABLE t (id PRIMARY KEY NOT NULL, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"unsafe id-type"}, refused: true},
		{name: "an id with an index on an expression", table: "CREATE TABLE t (id INTEGER NOT NULL, a TEXT NOT NULL UNIQUE); CREATE UNIQUE INDEX i ON t (id + 0)",
			change: bare, want: []string{"unsafe id-not-unique"}, refused: true},
		{name: "an INTEGER PRIMARY KEY that is not the number of the row", table: "CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"unsafe id-null"}, refused: true},
		{name: "a view", table: "CREATE TABLE b (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE); CREATE VIEW t AS SELECT id, a FROM b", change: bare, want: []string{"unsafe id-not-unique"}, refused: true},
		{name: "a full-text table", table: "CREATE VIRTUAL TABLE t USING fts5(id, a)", change: bare, want: []string{"unsafe id-type"}, refused: true},
		{name: "a CREATED that is a blob", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL UNIQUE, c BLOB)",
			change: func(e *source.Expected) { bare(e); e.Spec.Created = "c" }, want: []string{"unsafe time-type"}, refused: true},
		{name: "a MODIFIED that is a time of day", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL UNIQUE, c TIME)",
			change: func(e *source.Expected) { bare(e); e.Spec.Modified = "c" }, want: []string{"unsafe time-type"}, refused: true},
		{name: "an id that may be NULL", table: "CREATE TABLE t (id INTEGER UNIQUE, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"unsafe id-null"}, refused: true},
		{name: "ids that are given again", table: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"warning id-reuse"}},
		{name: "ids of an unknown issuer", table: "CREATE TABLE t (id INTEGER NOT NULL UNIQUE, a TEXT NOT NULL UNIQUE)", change: bare, want: []string{"warning id-issuer"}},
		{name: "a KEY that is not unique", change: func(e *source.Expected) { e.Spec.Key = []string{"a"} }, want: []string{"unsafe key-not-unique"}, refused: true},
		{name: "a KEY that is unique for some rows", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL); CREATE UNIQUE INDEX some ON t (a) WHERE a > 'b'",
			change: bare, want: []string{"unsafe key-not-unique"}, refused: true},
		{name: "a KEY that is unique by an expression", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL); CREATE UNIQUE INDEX e ON t (lower(a))",
			change: bare, want: []string{"unsafe key-not-unique"}, refused: true},
		{name: "a KEY that may be NULL", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT UNIQUE)", change: bare, want: []string{"note key-null"}},
		{name: "a KEY that is an approximate number", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a REAL NOT NULL UNIQUE)",
			change: bare, want: []string{"unsafe key-type"}, refused: true},
		{name: "nothing in a KEY of facts", change: func(e *source.Expected) { e.Spec.Key, e.Spec.UniqueKey = []string{"a"}, false }},
		{name: "nothing in a KEY that holds the id", change: func(e *source.Expected) { e.Spec.Key = []string{"ID", "a"} }},
		{name: "no MODIFIED, and a column that looks like it", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, updated_by TEXT, updated_at TEXT)",
			change: func(e *source.Expected) { e.Spec = source.Spec{Table: "t", ID: "id"} }, want: []string{"warning no-modified"}},
		{name: "no MODIFIED, and no column that looks like it", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, created_at TEXT, updated_by TEXT)",
			change: func(e *source.Expected) { e.Spec = source.Spec{Table: "t", ID: "id"} }, want: []string{"note no-modified"}},
		{name: "no index on MODIFIED", change: func(e *source.Expected) { e.Spec.Modified = "created" }, want: []string{"warning modified-index"}},
		{name: "nothing behind a position of this table", change: func(e *source.Expected) { e.Position = position(2) }},
		{name: "ids that are used again", change: func(e *source.Expected) { e.Position = position(3) }, want: []string{"unsafe ids-reused"}},
		{name: "a position ahead of a table that does not count", table: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE)",
			change: func(e *source.Expected) { bare(e); e.Position = position(3) }, want: []string{"warning id-reuse", "warning position-ahead"}},
		{name: "a KEY that is unique in a column of the other letter case", table: "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, é TEXT NOT NULL, É TEXT NOT NULL UNIQUE)",
			change: func(e *source.Expected) { bare(e); e.Spec.Key = []string{"é"} }, want: []string{"unsafe key-not-unique"}, refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBase(t, wal)
			if test.table == "" {
				test.table = healthy
			}
			b.exec(t, test.table)
			expected := source.Expected{
				Spec:    source.Spec{Table: "t", ID: "id", Key: []string{"a", "B"}, UniqueKey: true, Created: "created", Modified: "modified"},
				Updates: true, Stream: "s", Shard: "t",
			}
			if test.change != nil {
				test.change(&expected)
			}
			found := b.source.Inspect(t.Context(), []source.Expected{expected}, 2)
			if len(found.Server.Findings) > 0 || len(found.Tables) != 1 || !strings.Contains(found.Server.Summary, b.path+", journal wal") {
				t.Fatalf("found %+v", found)
			}
			var got []string
			for _, f := range found.Tables[0].Findings {
				got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Code))
				if do := f.Named(full).Do; unnamed.MatchString(do) {
					t.Errorf("%s says %q: a setting is named with internal/option", f.Code, do)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %q", found.Tables[0].Findings, test.want)
			}
			err := b.source.Shard(expected.Spec).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			if refused := errors.Is(err, source.ErrUnfit) || errors.Is(err, source.ErrMissing); refused != test.refused {
				t.Errorf("the tail says %v", err)
			}
			// In the words of the finding.
			findings := found.Tables[0].Findings
			if at := slices.IndexFunc(findings, inspect.Finding.Blocks); test.refused && findings[0].Code != inspect.NoTable && !strings.HasSuffix(err.Error(), findings[at].String()) {
				t.Errorf("the tail says %v", err)
			}
		})
	}
	t.Run("the statement that is printed heals", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL, m TEXT)")
		expected := []source.Expected{{Spec: source.Spec{Table: "t", ID: "id", Key: []string{"a"}, UniqueKey: true, Modified: "m"}, Updates: true}}
		for _, f := range b.source.Inspect(t.Context(), expected, 1).Tables[0].Findings {
			b.exec(t, f.Statement)
		}
		if found := b.source.Inspect(t.Context(), expected, 1).Tables[0]; len(found.Findings) > 0 || found.Order != source.OrderStrict {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("nothing about a position where the highest id is a text", func(t *testing.T) {
		b := newBase(t, rollback)
		b.exec(t, "CREATE TABLE t (id INT NOT NULL UNIQUE); INSERT INTO t VALUES ('x')")
		expected := source.Expected{Spec: source.Spec{Table: "t", ID: "id"}, Order: source.OrderStrict, Position: position(3)}
		if found := b.source.Inspect(t.Context(), []source.Expected{expected}, 1).Tables[0]; len(found.Findings) > 0 {
			t.Errorf("found %v", found.Findings)
		}
	})
	t.Run("ids with a format", func(t *testing.T) {
		for rows, want := range map[string]string{
			"NOT NULL)": "[note id-order]", ")": "[unsafe id-null]",
			"NOT NULL); INSERT INTO t VALUES (''), ('01JDZ0G8Q0AAAAAAAAAAAAAAAA')":      "[unsafe id-type]",
			"NOT NULL); INSERT INTO t VALUES ('01JDZ0G8Q0AAAAAAAAAAAAAAAA'), ('zebra')": "[unsafe id-type]",
			"NOT NULL); INSERT INTO t VALUES ('01JDZ0G8Q0AAAAAAAAAAAAAAAA')":            "[note id-order]",
		} {
			b := newBase(t, rollback)
			b.exec(t, "CREATE TABLE t (id TEXT PRIMARY KEY "+rows)
			expected := source.Expected{Spec: source.Spec{Table: "t", ID: "id", IDFormat: source.ULID, UniqueKey: true}, Order: source.OrderNone}
			found := b.source.Inspect(t.Context(), []source.Expected{expected}, 1).Tables[0]
			var got []string
			for _, f := range found.Findings {
				if got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Code)); strings.Contains(f.Do, "INTEGER") {
					t.Errorf("%s: %s", rows, f.Do)
				}
			}
			if fmt.Sprint(got) != want || found.Order != source.OrderNone || found.Why != "by ID_FORMAT" {
				t.Errorf("%s: %s, ids are %s %s", rows, found.Findings, found.Order, found.Why)
			}
		}
	})
	t.Run("a file that is not there", func(t *testing.T) {
		found := open(t, filepath.Join(t.TempDir(), "none.db")).Inspect(t.Context(), []source.Expected{{}}, 1)
		if found.Tables != nil || len(found.Server.Findings) != 1 || found.Server.Findings[0].Code != inspect.SourceUnreachable {
			t.Errorf("found %+v", found)
		}
	})
}

// bare leaves out the columns that a small table does not have.
func bare(e *source.Expected) {
	e.Spec, e.Updates = source.Spec{Table: "t", ID: "id", Key: []string{"a"}, UniqueKey: true}, false
}

func TestPageCosts(t *testing.T) {
	for name, test := range map[string]struct{ create, want string }{
		"INTEGER PRIMARY KEY": {
			"CREATE TABLE t (id INTEGER PRIMARY KEY, v, w JSON)", "SEARCH main.t USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		},
		"WITHOUT ROWID": {
			"CREATE TABLE t (v, w JSON, id INT PRIMARY KEY) WITHOUT ROWID", "SEARCH main.t USING PRIMARY KEY (id>? AND id<?)",
		},
		"a unique column": {
			"CREATE TABLE t (v, w JSON, id INT NOT NULL UNIQUE)", "SEARCH main.t USING INDEX sqlite_autoindex_t_1 (id>? AND id<?)",
		},
		"a second index that looks better": {
			"CREATE TABLE t (v, w JSON, id INTEGER PRIMARY KEY); CREATE INDEX i ON t (id, v, w)", "SEARCH main.t USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, test.create)
			b.exec(t, "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000) INSERT INTO t (id, v) SELECT i, i % 3 FROM s; ANALYZE")
			steps, err := sqlite.Plan(t.Context(), b.source.Shard(source.Spec{Table: "t", ID: "id"}))
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(steps, "\n")
			if !slices.Contains(steps, test.want) {
				t.Errorf("the rows do not come by the id:\n%s", plan)
			}
			for _, costly := range []string{"SCAN main.t", "TEMP B-TREE", "MATERIALIZE", "AUTOMATIC"} {
				if strings.Contains(plan, costly) {
					t.Errorf("the page takes a %s:\n%s", costly, plan)
				}
			}
		})
	}
}

// altered is a table that a shard has read once.
func altered(t *testing.T) (base, source.Shard) {
	t.Helper()
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	sourcetest.Read(t, s, source.Query{Limit: 9})
	return b, s
}

func TestAlteredTable(t *testing.T) {
	t.Run("a table remade with other types and another order is noticed at the next page", func(t *testing.T) {
		b, s := altered(t)
		b.exec(t, "BEGIN; CREATE TABLE new (at TEXT, n TEXT, id INTEGER PRIMARY KEY, name TEXT); INSERT INTO new SELECT at, n, id, name FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT")
		p := sourcetest.Read(t, s, source.Query{Limit: 9})
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
		if p := sourcetest.Read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("after the repair: %d rows", len(p.Rows))
		}
	})
}

func TestTables(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE VIEW v AS SELECT id FROM t; CREATE VIRTUAL TABLE words USING fts5(a)")
	list, err := b.source.Tables(t.Context())
	names := fmt.Sprint(list.Names)
	if err != nil || !strings.Contains(names, "{main words}") || !strings.Contains(names, "{main words_content}") || strings.Contains(names, "sqlite_") || strings.Contains(names, "main v}") {
		t.Errorf("tables to patterns: %s, %v", names, err)
	}
	if got := list.Settings(); !slices.Equal(got, []string{"t"}) {
		t.Errorf("tables to choose from: %q", got)
	}
}
