package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/source/sqlite"
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
			tx, err := b.app.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for id := range 300 {
				at := start.Add(time.Duration(rand.IntN(160)) * 250 * time.Millisecond)
				if _, err := tx.Exec("INSERT INTO t VALUES (?, ?)", id+1, test.stored(at)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
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
				if got := sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: limit}); !slices.Equal(got, want) {
					t.Fatalf("%d at a time: %d changes, want %d", limit, len(got), len(want))
				}
			}
			from, to := want[100], want[200].Modified
			got := sourcetest.AllChanges(t, s, source.ChangeQuery{After: from, Through: to, Limit: 9})
			end := slices.IndexFunc(want, func(at source.Cursor) bool { return at.Modified > to })
			if end < 0 {
				end = len(want)
			}
			if !slices.Equal(got, want[101:end]) {
				t.Errorf("from %v through %s: %d changes, want %d", from, to, len(got), end-101)
			}
		})
	}
}

func TestChangesCostTheirIndexEntries(t *testing.T) {
	for name, create := range map[string]string{
		"a column":               "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at)",
		"a column and the id":    "CREATE TABLE t (id INT NOT NULL UNIQUE, at DATETIME, v); CREATE INDEX i ON t (at, id)",
		"without rowid":          "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, at DATETIME, v) WITHOUT ROWID; CREATE INDEX i ON t (at)",
		"in descending order":    "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at DESC)",
		"in another collation":   "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX i ON t (at COLLATE NOCASE)",
		"beside a partial index": "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME, v); CREATE INDEX p ON t (at) WHERE v; CREATE INDEX i ON t (at)",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, create)
			b.exec(t, "INSERT INTO t (id, at) VALUES (1, '2026-01-02 03:04:05'), (2, '2026-01-02 03:04:04')")
			s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
			steps, err := sqlite.ChangesPlan(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(steps, "\n")
			if len(steps) != 2 || strings.Contains(plan, "B-TREE") || strings.Count(plan, "SEARCH main.t USING COVERING INDEX i") != 2 {
				t.Errorf("changes are not read along the index:\n%s", plan)
			}
			if got := fmt.Sprint(sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: 1})); got != "[{2026-01-02 03:04:04.000000 2 } {2026-01-02 03:04:05.000000 1 }]" {
				t.Errorf("changes %s", got)
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

func keyOf(p *source.Page, r source.Row) (tuple [][]byte) {
	for _, at := range p.Columns.Key {
		tuple = append(tuple, r.Values[at])
	}
	return tuple
}

func byKey(t *testing.T, s source.Shard, keys ...[][]byte) (ids []uint64) {
	t.Helper()
	for _, r := range sourcetest.Read(t, s, source.Query{Keys: keys, Limit: 5000}).Rows {
		ids = append(ids, r.ID)
	}
	return ids
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
					keys, ids = append(keys, keyOf(all, r)), append(ids, r.ID)
					if got := byKey(t, s, keyOf(all, r)); !slices.Equal(got, []uint64{r.ID}) {
						t.Errorf("the key %.60q of row %d finds %d", keyOf(all, r), r.ID, got)
					}
				}
				if got := byKey(t, s, keys...); !slices.Equal(got, ids) {
					t.Errorf("all keys together find %d, want %d", got, ids)
				}
			})
		}
	}
}

func TestKeysCostTheirRows(t *testing.T) {
	for _, test := range []struct {
		name, create string
		key          []string
		want         string
	}{
		{"the id", "CREATE TABLE t (id INTEGER PRIMARY KEY, v, w)", nil, "USING INTEGER PRIMARY KEY (rowid=?"},
		{"two columns", "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL, w INT NOT NULL, UNIQUE (w, v))", []string{"v", "w"}, "USING INDEX sqlite_autoindex_t_1 (w=? AND v=?"},
		{"an index without regard to case", "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL, w TEXT NOT NULL); CREATE UNIQUE INDEX i ON t (v COLLATE NOCASE, w)", []string{"v", "w"}, "USING INDEX i (v=? AND w=?"},
		{"the primary key without rowid", "CREATE TABLE t (id INT NOT NULL UNIQUE, v TEXT, w INT, PRIMARY KEY (v, w)) WITHOUT ROWID", []string{"w", "v"}, "USING PRIMARY KEY (v=? AND w=?"},
		{"a day behind a text", "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL, w DATE NOT NULL, UNIQUE (v, w))", []string{"v", "w"}, "USING INDEX sqlite_autoindex_t_1 (v=?)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBase(t, wal)
			b.exec(t, test.create)
			b.exec(t, "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 3000) INSERT INTO t (id, v, w) SELECT i, 'v' || (i / 60), i % 60 FROM s; ANALYZE")
			s := b.source.Shard(source.Spec{Table: "t", ID: "id", Key: test.key, UniqueKey: true})
			all := sourcetest.Read(t, s, source.Query{Limit: 5000})
			for _, n := range []int{1, 1000} {
				var keys [][][]byte
				for _, r := range all.Rows[:n] {
					keys = append(keys, keyOf(all, r))
				}
				steps, err := sqlite.KeysPlan(t.Context(), s, keys)
				if err != nil {
					t.Fatal(err)
				}
				plan := strings.Join(steps, "\n")
				plan = strings.ReplaceAll(plan, "COVERING INDEX", "INDEX")
				if !strings.Contains(plan, "SEARCH main.t "+test.want) || strings.Contains(plan, "SCAN main.t") || strings.Contains(plan, "ORDER BY") {
					t.Errorf("%d keys are not looked up:\n%s", n, plan)
				}
				if got := byKey(t, s, keys...); len(got) != n {
					t.Errorf("%d keys find %d rows", n, len(got))
				}
			}
		})
	}
}

func TestKeysAreComparedByteForByte(t *testing.T) {
	b := newBase(t, wal)
	b.exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL COLLATE NOCASE UNIQUE)")
	b.exec(t, "INSERT INTO t VALUES (1, 'Ab'), (-3, 'neg')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Key: []string{"v"}, UniqueKey: true})
	if ids := byKey(t, s, [][]byte{[]byte("ab")}, [][]byte{[]byte("AB")}, [][]byte{[]byte("neg")}); len(ids) != 0 {
		t.Errorf("similar keys find %d", ids)
	}
	if ids := byKey(t, s, [][]byte{[]byte("ab")}, [][]byte{[]byte("Ab")}); !slices.Equal(ids, []uint64{1}) {
		t.Errorf("the key finds %d", ids)
	}
}
