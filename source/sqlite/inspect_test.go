package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
)

const healthy = `CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL, b TEXT NOT NULL, state TEXT,
	created TEXT NOT NULL DEFAULT (strftime('%F %T.%f')), modified TEXT NOT NULL DEFAULT '2026-01-01', UNIQUE (b, a));
	CREATE INDEX by_modified ON t (modified); INSERT INTO t (a, b) VALUES ('x', 'y'), ('x', 'z')`

// unnamed finds a setting that its user's naming has not named.
var unnamed = regexp.MustCompile(`\b(with|correct|or|set) (TABLE|ID|ID_ORDER|KEY|CREATED|MODIFIED|DELETED|FIELDS|TIME_ZONE)\b`)

// TestInspect has tables, the healthy one where there is none, with what is found. The tail refuses
// those with a finding that blocks, in its words; that ids are used again it sees by their rows.
func TestInspect(t *testing.T) {
	position := func(id uint64) *uint64 { return &id }
	behind := func(id uint64) func(*source.Expected) { return func(e *source.Expected) { e.Position = position(id) } }
	keyed := func(key ...string) func(*source.Expected) { return func(e *source.Expected) { e.Spec.Key = key } }
	updated := func(e *source.Expected) { e.Spec, e.Updates = source.Spec{Table: "t", ID: "id"}, true }
	const counted, counts = "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, ", "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE)"
	for name, c := range map[string]struct {
		table, want string
		// change is made to what is expected of a healthy or a small table.
		change func(*source.Expected)
	}{
		"a healthy table":   {},
		"no table":          {"", "unsafe no-table", func(e *source.Expected) { e.Spec.Table = "u" }},
		"two columns less":  {"", "unsafe no-column, unsafe no-column", func(e *source.Expected) { e.Spec.Created, e.Spec.Fields = "born", []string{"a", "c"} }},
		"an id of text":     {"", "unsafe id-type", func(e *source.Expected) { e.Spec.ID = "a" }},
		"an id of booleans": {"CREATE TABLE t (id BOOLEAN PRIMARY KEY NOT NULL, a TEXT NOT NULL UNIQUE)", "unsafe id-type", nil},
		"an id of no type":  {"CREATE TABLE t (id PRIMARY KEY NOT NULL, a TEXT NOT NULL UNIQUE)", "unsafe id-type", nil},
		"no unique id":      {"CREATE TABLE t (id INTEGER NOT NULL, a TEXT NOT NULL UNIQUE)", "unsafe id-not-unique", nil},
		"an expression of the id is unique": {"CREATE TABLE t (id INTEGER NOT NULL, a TEXT NOT NULL UNIQUE); CREATE UNIQUE INDEX i ON t (id + 0)",
			"unsafe id-not-unique", nil},
		"an INTEGER PRIMARY KEY is not the number of the row": {"CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a TEXT NOT NULL UNIQUE)", "unsafe id-null", nil},
		"an id may be NULL":       {"CREATE TABLE t (id INTEGER UNIQUE, a TEXT NOT NULL UNIQUE)", "unsafe id-null", nil},
		"a view":                  {"CREATE TABLE b (id INTEGER PRIMARY KEY, a TEXT NOT NULL UNIQUE); CREATE VIEW t AS SELECT id, a FROM b", "unsafe id-not-unique", nil},
		"a full-text table":       {"CREATE VIRTUAL TABLE t USING fts5(id, a)", "unsafe id-type", nil},
		"CREATED is a blob":       {counted + "a TEXT NOT NULL UNIQUE, c BLOB)", "unsafe time-type", func(e *source.Expected) { e.Spec.Created = "c" }},
		"MODIFIED without a day":  {counted + "a TEXT NOT NULL UNIQUE, c TIME)", "unsafe time-type", func(e *source.Expected) { e.Spec.Modified = "c" }},
		"ids are given again":     {counts, "warning id-reuse", nil},
		"an unknown issuer":       {"CREATE TABLE t (id INTEGER NOT NULL UNIQUE, a TEXT NOT NULL UNIQUE)", "warning id-issuer", nil},
		"ids below 1":             {counted + "a TEXT NOT NULL UNIQUE); INSERT INTO t VALUES (-7, 'x')", "warning id-negative", nil},
		"KEY is not unique":       {"", "unsafe key-not-unique", keyed("a")},
		"KEY of some rows":        {counted + "a TEXT NOT NULL); CREATE UNIQUE INDEX some ON t (a) WHERE a > 'b'", "unsafe key-not-unique", nil},
		"an expression of KEY":    {counted + "a TEXT NOT NULL); CREATE UNIQUE INDEX e ON t (lower(a))", "unsafe key-not-unique", nil},
		"KEY of the other case":   {counted + "é TEXT NOT NULL, É TEXT NOT NULL UNIQUE)", "unsafe key-not-unique", keyed("é")},
		"KEY may be NULL":         {counted + "a TEXT UNIQUE)", "note key-null", nil},
		"KEY is approximate":      {counted + "a REAL NOT NULL UNIQUE)", "unsafe key-type", nil},
		"KEY of facts":            {"", "", func(e *source.Expected) { e.Spec.Key, e.Spec.UniqueKey = []string{"a"}, false }},
		"KEY holds the id":        {"", "", keyed("ID", "a")},
		"MODIFIED may be there":   {counted + "updated_by TEXT, updated_at TEXT)", "warning no-modified", updated},
		"there is no MODIFIED":    {counted + "created_at TEXT, updated_by TEXT)", "note no-modified", updated},
		"MODIFIED has no index":   {"", "warning modified-index", func(e *source.Expected) { e.Spec.Modified = "created" }},
		"a position of the table": {"", "", behind(2)},
		"ids are used again":      {"", "unsafe ids-reused", behind(3)},
		"a position ahead":        {counts, "warning id-reuse, warning position-ahead", behind(3)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t, wal)
			expected := source.Expected{
				Spec:    source.Spec{Table: "t", ID: "id", Key: []string{"a", "B"}, UniqueKey: true, Created: "created", Modified: "modified"},
				Updates: true, Stream: "s", Shard: "t",
			}
			if c.table == "" {
				c.table = healthy
			} else {
				expected.Spec, expected.Updates = source.Spec{Table: "t", ID: "id", Key: []string{"a"}, UniqueKey: true}, false
			}
			b.exec(t, c.table)
			if c.change != nil {
				c.change(&expected)
			}
			found := b.source.Inspect(t.Context(), []source.Expected{expected}, 2)
			if len(found.Server.Findings) > 0 || len(found.Tables) != 1 || !strings.Contains(found.Server.Summary, b.path+", journal wal") {
				t.Fatalf("found %+v", found)
			}
			findings, blocks := found.Tables[0].Findings, ""
			var got []string
			for _, f := range findings {
				got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Code))
				if do := f.Named(full).Do; unnamed.MatchString(do) {
					t.Errorf("%s says %q: a setting is named with internal/option", f.Code, do)
				}
				if blocks == "" && f.Blocks() && f.Code != inspect.IDsReused {
					blocks = f.String()
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("found %v, want %q", findings, c.want)
			}
			err := b.source.Shard(expected.Spec).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			if refused := errors.Is(err, source.ErrUnfit) || errors.Is(err, source.ErrMissing); refused != (blocks != "") ||
				refused && findings[0].Code != inspect.NoTable && !strings.HasSuffix(err.Error(), blocks) {
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
		named := inspect.Named(found.Server.Findings, func(name option.Name) string { return "BRIDGE_" + string(name) })
		if found.Tables != nil || len(named) != 1 || named[0].Code != inspect.SourceUnreachable || !strings.Contains(named[0].What, "correct BRIDGE_SOURCE_URL") {
			t.Errorf("found %+v", found)
		}
	})
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
		must.Fail(t, s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)), source.ErrUnfit)
		b.exec(t, "CREATE TABLE new (id INTEGER PRIMARY KEY, name, n, at DATETIME); INSERT INTO new SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t")
		sourcetest.Holds(t, s, 1)
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
	sourcetest.Same(t, list.Settings(), []string{"t"}, "tables to choose from")
}
