package sourcetest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"bridge/source"
)

func testEmpty(t *testing.T, f Fixture) {
	p := read(t, f.Source.Shard(spec(f.NewTable(t))), source.Query{Limit: 10})
	if len(p.Rows) != 0 || p.MaxID != 0 || p.More {
		t.Fatalf("%d rows, highest id %d, more %t", len(p.Rows), p.MaxID, p.More)
	}
}

func rowsOf(ids ...uint64) []Row {
	rows := make([]Row, len(ids))
	for i, id := range ids {
		rows[i] = Row{ID: id, Name: "n"}
	}
	return rows
}

func testPages(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	var want []uint64
	for i := range uint64(25) {
		want = append(want, 3*i+1)
	}
	backwards := slices.Clone(want)
	slices.Reverse(backwards)
	f.Insert(t, table, rowsOf(backwards...)...)
	s := f.Source.Shard(spec(table))
	for _, limit := range []int{1, 7, 10, 25, 26, 1000} {
		got, _ := readAll(t, s, source.Query{Limit: limit})
		if !slices.Equal(got, want) {
			t.Fatalf("limit %d: got %d, want %d", limit, got, want)
		}
	}
	if got, pages := readAll(t, s, source.Query{Limit: 10, After: 30}); !slices.Equal(got, want[10:]) || pages != 2 {
		t.Fatalf("after 30: %d in %d pages", got, pages)
	}
}

func testThrough(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 3, 5, 8)...)
	s := f.Source.Shard(spec(table))
	for _, test := range []struct {
		q    source.Query
		want []uint64
	}{
		{source.Query{Through: 3, Limit: 10}, []uint64{1, 2, 3}},
		{source.Query{After: 2, Through: 7, Limit: 10}, []uint64{3, 5}},
		{source.Query{After: 5, Through: 7, Limit: 10}, nil},
		{source.Query{After: 7, Through: 8, Limit: 1}, []uint64{8}},
	} {
		if got, _ := readAll(t, s, test.q); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %d, want %d", test.q, got, test.want)
		}
	}
}

func testMaxBytes(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	var rows []Row
	var want []uint64
	for id := range uint64(600) {
		rows = append(rows, Row{ID: id + 1, Name: strings.Repeat("x", 1000)})
		want = append(want, id+1)
	}
	f.Insert(t, table, rows...)
	s := f.Source.Shard(spec(table))
	for _, budget := range []int{1, 10_000, 100_000, 10 << 20} {
		got, pages := readAll(t, s, source.Query{Limit: 1000, MaxBytes: budget})
		if !slices.Equal(got, want) {
			t.Fatalf("budget %d: %d rows", budget, len(got))
		}
		if least := 600_000 / (budget + 1100); pages < least {
			t.Errorf("budget %d: %d pages, want at least %d", budget, pages, least)
		}
	}
}

func testHugeRow(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	huge := strings.Repeat("h", 1<<20)
	f.Insert(t, table, Row{ID: 1, Name: "a"}, Row{ID: 2, Name: huge}, Row{ID: 3, Name: huge}, Row{ID: 4, Name: "b"})
	s := f.Source.Shard(spec(table))
	q := source.Query{After: 1, Limit: 100, MaxBytes: 1000}
	p := read(t, s, q)
	if len(p.Rows) != 1 || !p.More || string(value(t, p, p.Rows[0], "name")) != huge {
		t.Fatalf("%d rows, more %t", len(p.Rows), p.More)
	}
	if got, _ := readAll(t, s, source.Query{Limit: 100, MaxBytes: 1000}); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Fatalf("got %d", got)
	}
}

func testMaxID(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(4, 9, 70)...)
	s := f.Source.Shard(spec(table))
	for _, q := range []source.Query{{Limit: 1}, {After: 4, Through: 9, Limit: 9}, {After: 70, Limit: 1}} {
		if p := read(t, s, q); p.MaxID != 70 {
			t.Errorf("%+v: highest id %d, want 70", q, p.MaxID)
		}
	}
}

func testHighestID(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(f.HighestID-1, f.HighestID)...)
	s := f.Source.Shard(spec(table))
	if got, _ := readAll(t, s, source.Query{Limit: 1}); !slices.Equal(got, []uint64{f.HighestID - 1, f.HighestID}) {
		t.Fatalf("got %d", got)
	}
}

func testRanges(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(2, 4, 6, 100, 102, 104, 200)...)
	s := f.Source.Shard(spec(table))
	ranges := []source.Range{{First: 1, Last: 5}, {First: 7, Last: 7}, {First: 100, Last: 104}, {First: 1 << 63, Last: math.MaxUint64}}
	want := []uint64{2, 4, 100, 102, 104}
	var got []uint64
	p := read(t, s, source.Query{Ranges: ranges, Limit: 100})
	for _, r := range p.Rows {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) || p.MaxID != 200 {
		t.Errorf("rows %d, want %d, highest id %d", got, want, p.MaxID)
	}
	for _, uncommitted := range []bool{false, true} {
		var ids source.IDs
		if err := s.ReadIDs(t.Context(), ranges, uncommitted, 100, &ids); err != nil || !slices.Equal(ids.List, want) || ids.Cut || ids.Now.IsZero() || ids.Server == "" {
			t.Errorf("ids %+v, %v; want %d", ids, err, want)
		}
		if err := s.ReadIDs(t.Context(), ranges, uncommitted, 3, &ids); err != nil || !slices.Equal(ids.List, want[:3]) || !ids.Cut {
			t.Errorf("ids %+v, %v; want a cut after %d", ids, err, want[:3])
		}
	}
}
