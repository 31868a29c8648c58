package sqlite_test

import (
	"slices"
	"testing"

	"bridge/source"
)

func TestRanges(t *testing.T) {
	b := newBase(t, wal)
	// Columns named like those of json_each must not be confused with them.
	b.exec(t, `CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT, "key" TEXT, parent TEXT)`)
	b.exec(t, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t (id, value) SELECT 2 * i, 'v' || i FROM n")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	ranges := []source.Range{{First: 1, Last: 5}, {First: 7, Last: 7}, {First: 100, Last: 104}, {First: 1 << 63, Last: 1<<64 - 1}}
	want := []uint64{2, 4, 100, 102, 104}

	var ids source.IDs
	if err := s.ReadIDs(t.Context(), ranges, true, 100, &ids); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids.List, want) || ids.Cut || ids.Now.IsZero() || ids.Server == "" {
		t.Errorf("got %+v, want %v", ids, want)
	}
	if err := s.ReadIDs(t.Context(), ranges, true, 3, &ids); err != nil || !ids.Cut || len(ids.List) != 3 {
		t.Errorf("got %+v, %v, want a cut after 3", ids, err)
	}
	var p source.Page
	if err := s.Read(t.Context(), source.Query{Ranges: ranges, Limit: 100}, &p); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, r := range p.Rows {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) || p.MaxID != 2000 || string(p.Rows[4].Values[1]) != "v52" {
		t.Errorf("got rows %v, highest %d, want %v", got, p.MaxID, want)
	}
}
