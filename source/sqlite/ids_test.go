package sqlite_test

import (
	"testing"

	"bridge/source"
)

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
	if p := read(t, s, source.Query{Ranges: ranges, Limit: 9}); len(p.Rows) != 1 || string(p.Rows[0].Values[1]) != "b" {
		t.Errorf("rows %v", p.Rows)
	}
}
