package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
	"example.org/bridge/tests/must"
)

// However times are stored, as long as they are all stored alike, changes come in the order of the
// moments.
func TestChangesOfEveryFormOfTimes(t *testing.T) {
	berlin := time.FixedZone("CEST", 2*3600)
	for _, test := range []struct {
		name, definition string
		stored           func(at time.Time) any
	}{
		{"texts with milliseconds", "DATETIME", func(at time.Time) any { return at.Format("2006-01-02 15:04:05.000") }},
		{"texts with as many digits as it takes", "TIMESTAMP", func(at time.Time) any { return at.Format("2006-01-02 15:04:05.999") }},
		{"texts with a T and a Z", "TEXT", func(at time.Time) any { return at.Format("2006-01-02T15:04:05.000Z") }},
		{"texts with a Z and as many digits as it takes", "TEXT", func(at time.Time) any { return at.Format(time.RFC3339Nano) }},
		{"texts with an offset", "DATETIME", func(at time.Time) any { return at.In(berlin).Format("2006-01-02 15:04:05.000-07:00") }},
		{"texts as Go writes them", "DATETIME", func(at time.Time) any { return at.String() }},
		{"texts as Go writes them in a zone", "TEXT", func(at time.Time) any { return at.In(berlin).String() + " m=+0.1" }},
		{"texts with a blank before the zone", "DATETIME", func(at time.Time) any { return at.In(berlin).Format("2006-01-02 15:04:05.999 -07:00") }},
		{"whole seconds in texts", "DATETIME", func(at time.Time) any { return at.Format(time.DateTime) }},
		{"minutes in texts", "DATETIME", func(at time.Time) any { return at.Format("2006-01-02 15:04") }},
		{"days", "DATE", func(at time.Time) any { return at.Format(time.DateOnly) }},
		{"days in two forms", "DATE", func(at time.Time) any {
			return at.Format([]string{time.DateOnly, "2006-01-02 00:00:00"}[at.Second()%2])
		}},
		{"Unix time", "INTEGER", func(at time.Time) any { return at.Unix() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, at "+test.definition+"); CREATE INDEX i ON t (at)")
			start := time.Date(2026, 3, 1, 23, 59, 40, 0, time.UTC)
			tx := must.Get(b.app.BeginTx(t.Context(), nil))(t)
			for id := range 300 {
				at := start.Add(time.Duration(rand.IntN(160)) * 250 * time.Millisecond)
				must.Get(tx.Exec("INSERT INTO t VALUES (?, ?)", id+1, test.stored(at)))(t)
			}
			must.OK(t, tx.Commit())
			b.exec(t, "INSERT INTO t VALUES (1000, NULL)")
			s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
			p := sourcetest.Read(t, s, source.Query{Limit: 1000})
			var want []source.Cursor
			for _, r := range p.Rows {
				if v := r.Values[1]; v != nil {
					want = append(want, source.Cursor{Modified: string(v), ID: r.ID})
				}
			}
			slices.SortFunc(want, source.Cursor.Compare)
			for _, limit := range []int{1, 7, 1000} {
				sourcetest.Same(t, sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: limit}), want, "%d at a time", limit)
			}
			from, to := want[100], want[200].Modified
			got := sourcetest.AllChanges(t, s, source.ChangeQuery{After: from, Through: to, Limit: 9})
			end := slices.IndexFunc(want, func(at source.Cursor) bool { return at.Modified > to })
			if end < 0 {
				end = len(want)
			}
			sourcetest.Same(t, got, want[101:end], "from %v through %s", from, to)
		})
	}
}

// TestStatementsCostTheirRows: pages, keys and changes are searched for in an index, and nothing is
// sorted.
func TestStatementsCostTheirRows(t *testing.T) {
	columns := map[string]string{"page": "id, v) SELECT i, i % 3", "keys": "id, v, w) SELECT i, 'v' || (i / 60), i % 60", "changes": "id, at) SELECT i, strftime('%F %T', 1767323045 - i, 'unixepoch')"}
	const rows = 3000
	for _, c := range []struct {
		of, name, create string
		key              []string
		want             string
	}{
		{"page", "INTEGER PRIMARY KEY", "(id INTEGER PRIMARY KEY, v, w JSON)", nil, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{"page", "WITHOUT ROWID", "(v, w JSON, id INT PRIMARY KEY) WITHOUT ROWID", nil, "PRIMARY KEY (id>? AND id<?)"},
		{"page", "a unique column", "(v, w JSON, id INT NOT NULL UNIQUE)", nil, "INDEX sqlite_autoindex_t_1 (id>? AND id<?)"},
		{"page", "a second index that looks better", "(v, w JSON, id INTEGER PRIMARY KEY); CREATE INDEX i ON t (id, v, w)", nil, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{"keys", "the id", "(id INTEGER PRIMARY KEY, v, w)", nil, "INTEGER PRIMARY KEY (rowid=?"},
		{"keys", "two columns", "(id INTEGER PRIMARY KEY, v TEXT NOT NULL, w INT NOT NULL, UNIQUE (w, v))", []string{"v", "w"}, "INDEX sqlite_autoindex_t_1 (w=? AND v=?"},
		{"keys", "an index without regard to case", "(id INTEGER PRIMARY KEY, v TEXT NOT NULL, w TEXT NOT NULL); CREATE UNIQUE INDEX i ON t (v COLLATE NOCASE, w)", []string{"v", "w"}, "INDEX i (v=? AND w=?"},
		{"keys", "the primary key without rowid", "(id INT NOT NULL UNIQUE, v TEXT, w INT, PRIMARY KEY (v, w)) WITHOUT ROWID", []string{"w", "v"}, "PRIMARY KEY (v=? AND w=?"},
		{"keys", "a day behind a text", "(id INTEGER PRIMARY KEY, v TEXT NOT NULL, w DATE NOT NULL, UNIQUE (v, w))", []string{"v", "w"}, "INDEX sqlite_autoindex_t_1 (v=?)"},
		{"changes", "a column", "(id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at)", nil, "INDEX i"},
		{"changes", "a column and the id", "(id INT NOT NULL UNIQUE, at DATETIME, v); CREATE INDEX i ON t (at, id)", nil, "INDEX i"},
		{"changes", "without rowid", "(id INT NOT NULL PRIMARY KEY, at DATETIME, v) WITHOUT ROWID; CREATE INDEX i ON t (at)", nil, "INDEX i"},
		{"changes", "in descending order", "(id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at DESC)", nil, "INDEX i"},
		{"changes", "in another collation", "(id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at COLLATE NOCASE)", nil, "INDEX i"},
		{"changes", "beside a partial index", "(id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX p ON t (at) WHERE v; CREATE INDEX i ON t (at)", nil, "INDEX i"},
	} {
		t.Run(c.of+": "+c.name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, "CREATE TABLE t "+c.create)
			b.exec(t, fmt.Sprintf("WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) INSERT INTO t (%s FROM s; ANALYZE", rows, columns[c.of]))
			sp := source.Spec{Table: "t", ID: "id", Key: c.key, UniqueKey: true}
			if c.of == "changes" {
				sp.Modified = "at"
			}
			s := b.source.Shard(sp)
			var keys [][][]byte
			all := sourcetest.Read(t, s, source.Query{Limit: 5000})
			for _, r := range all.Rows[:1000] {
				keys = append(keys, sourcetest.KeyOf(all, r))
			}
			plans := map[string]func() ([]string, error){
				"page": func() ([]string, error) {
					page, err := sqlite.Plan(t.Context(), s, source.Query{Through: 9, Limit: 9})
					ranges, errRanges := sqlite.Plan(t.Context(), s, source.Query{Ranges: []source.Range{{First: 1, Last: 2}, {First: 5, Last: 5}}, Limit: 9})
					return append(page, ranges...), errors.Join(err, errRanges)
				},
				"keys": func() ([]string, error) {
					one, err := sqlite.KeysPlan(t.Context(), s, keys[:1])
					many, errMany := sqlite.KeysPlan(t.Context(), s, keys)
					return append(one, many...), errors.Join(err, errMany)
				},
				"changes": func() ([]string, error) { return sqlite.ChangesPlan(t.Context(), s) },
			}
			steps := must.Get(plans[c.of]())(t)
			plan, searches := strings.Join(steps, "\n"), map[string]int{"page": 2, "keys": 2, "changes": 2}[c.of]
			if strings.Count(strings.ReplaceAll(plan, "COVERING ", ""), "SEARCH main.t USING "+c.want) < searches || c.of == "changes" && (len(steps) != 2 || strings.Count(plan, "COVERING") != 2) {
				t.Errorf("it is not read by the index:\n%s", plan)
			}
			for _, costly := range []string{"SCAN main.t", "TEMP B-TREE", "MATERIALIZE", "AUTOMATIC", "ORDER BY"} {
				if strings.Contains(plan, costly) {
					t.Errorf("it takes a %s:\n%s", costly, plan)
				}
			}
			if c.of == "keys" && len(byKey(t, s, keys...)) != len(keys) {
				t.Error("rows are missing")
			}
			if c.of == "changes" && len(sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: 700})) != rows {
				t.Error("changes are missing")
			}
		})
	}
}

func TestChangesSkipInvalidTimes(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TEXT); CREATE INDEX i ON t (at)")
	b.exec(t, "INSERT INTO t VALUES (-1, '2026-01-01 00:00:00'), (1, ''), (2, '2026-01-01 00:00:00'), (3, '2026-01-01 00:00:00 or so'), (4, '2026-01-02 00:00:00')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
	if got := fmt.Sprint(sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: 10})); got != "[{2026-01-01 00:00:00.000000 2 } {2026-01-02 00:00:00.000000 4 }]" {
		t.Errorf("changes %s", got)
	}
	if err := s.ReadChanges(t.Context(), source.ChangeQuery{After: source.Cursor{Modified: "soon"}, Limit: 1}, new(source.Changes)); err == nil {
		t.Error("a cursor that is not a time was accepted")
	}
}

// Columns named like those of json_each must not be confused with them.
func TestRangesOfATableWithColumnsOfJSONEach(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, `CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT, "key" TEXT, parent TEXT)`)
	b.exec(t, "INSERT INTO t (id, value) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	ranges := []source.Range{{First: 2, Last: 2}}
	var ids source.IDs
	if err := s.ReadIDs(t.Context(), ranges, true, 9, &ids); err != nil || len(ids.List) != 1 || ids.List[0] != 2 {
		t.Errorf("ids %v, %v", ids.List, err)
	}
	if p := sourcetest.Read(t, s, source.Query{Ranges: ranges, Limit: 9}); len(p.Rows) != 1 || string(p.Rows[0].Values[1]) != "b" {
		t.Errorf("rows %v", p.Rows)
	}
}

func byKey(t *testing.T, s source.Shard, keys ...[][]byte) []uint64 {
	t.Helper()
	return sourcetest.IDs(sourcetest.Read(t, s, source.Query{Keys: keys, Limit: 5000}))
}

// However a value is stored, its normal form finds its row, and no other.
func TestKeysOfEveryTypeAreFound(t *testing.T) {
	for _, encoding := range []string{"UTF-8", "UTF-16le"} {
		b := newBase(t, rollback)
		b.exec(t, "PRAGMA encoding = '"+encoding+"'")
		for _, test := range typeTests {
			if test.kind == source.Float {
				continue
			}
			t.Run(encoding+" "+strings.ToLower(test.definition), func(t *testing.T) {
				b.exec(t, "DROP TABLE IF EXISTS types")
				b.exec(t, "CREATE TABLE types (id INTEGER PRIMARY KEY, v "+test.definition+" NOT NULL, n INT NOT NULL, UNIQUE (v, n))")
				for i, value := range test.values {
					if encoding == "UTF-8" || !strings.Contains(value[0], "61ff") {
						b.exec(t, fmt.Sprintf("INSERT INTO types (v, n) VALUES (%s, %d)", value[0], i))
					}
				}
				s := b.source.Shard(source.Spec{Table: "types", ID: "id", Key: []string{"n", "v"}, UniqueKey: true})
				all := sourcetest.Read(t, s, source.Query{Limit: 100})
				var keys [][][]byte
				var ids []uint64
				for _, r := range all.Rows {
					keys, ids = append(keys, sourcetest.KeyOf(all, r)), append(ids, r.ID)
					sourcetest.Same(t, byKey(t, s, sourcetest.KeyOf(all, r)), []uint64{r.ID}, "by the key %.60q", sourcetest.KeyOf(all, r))
				}
				sourcetest.Same(t, byKey(t, s, keys...), ids, "by all keys")
			})
		}
	}
}

func TestKeysAreComparedByteForByte(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL COLLATE NOCASE UNIQUE)")
	b.exec(t, "INSERT INTO t VALUES (1, 'Ab'), (-3, 'neg')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Key: []string{"v"}, UniqueKey: true})
	sourcetest.Same(t, byKey(t, s, [][]byte{[]byte("ab")}, [][]byte{[]byte("AB")}, [][]byte{[]byte("neg")}), nil, "by similar keys")
	sourcetest.Same(t, byKey(t, s, [][]byte{[]byte("ab")}, [][]byte{[]byte("Ab")}), []uint64{1}, "by a key and a similar one")
}
