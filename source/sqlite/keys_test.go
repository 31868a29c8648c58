package sqlite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bridge/source"
	"bridge/source/sqlite"
)

func keyOf(p *source.Page, r source.Row) (tuple [][]byte) {
	for _, at := range p.Columns.Key {
		tuple = append(tuple, r.Values[at])
	}
	return tuple
}

func byKey(t *testing.T, s source.Shard, keys ...[][]byte) (ids []uint64) {
	t.Helper()
	for _, r := range read(t, s, source.Query{Keys: keys, Limit: 5000}).Rows {
		ids = append(ids, r.ID)
	}
	return ids
}

// However a value is stored, its normal form finds its row, and no other.
func TestKeysOfEveryTypeAreFound(t *testing.T) {
	for _, encoding := range []string{"UTF-8", "UTF-16le"} {
		for _, test := range typeTests {
			if test.kind == source.Float {
				continue
			}
			t.Run(encoding+" "+strings.ToLower(test.definition), func(t *testing.T) {
				b := newBase(t, rollback)
				b.exec(t, "PRAGMA encoding = '"+encoding+"'")
				b.exec(t, "CREATE TABLE types (id INTEGER PRIMARY KEY, v "+test.definition+" NOT NULL, n INT NOT NULL, UNIQUE (v, n))")
				for i, value := range test.values {
					if encoding == "UTF-8" || !strings.Contains(value[0], "61ff") {
						b.exec(t, fmt.Sprintf("INSERT INTO types (v, n) VALUES (%s, %d)", value[0], i))
					}
				}
				s := b.source.Shard(source.Spec{Table: "types", ID: "id", Key: []string{"n", "v"}, UniqueKey: true})
				all := read(t, s, source.Query{Limit: 100})
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
			all := read(t, s, source.Query{Limit: 5000})
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
