package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/source"
)

func readChanges(t *testing.T, s source.Shard, q source.ChangeQuery) *source.Changes {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var c source.Changes
	if err := s.ReadChanges(ctx, q, &c); err != nil {
		t.Fatal(err)
	}
	last := q.After
	for _, at := range c.List {
		if at.Modified < last.Modified || at.Modified == last.Modified && at.ID <= last.ID || q.Through != "" && at.Modified > q.Through {
			t.Fatalf("%v after %v, through %q", at, last, q.Through)
		}
		last = at
	}
	if c.Now.IsZero() || c.Now.Location() != time.UTC || c.Server == "" || c.More != (len(c.List) == q.Limit) || len(c.List) > q.Limit {
		t.Fatalf("%d changes of %d, clock %v, server %q, more %t", len(c.List), q.Limit, c.Now, c.Server, c.More)
	}
	return &c
}

// allChanges follows the cursor to the end.
func allChanges(t *testing.T, s source.Shard, q source.ChangeQuery) (ids []uint64) {
	t.Helper()
	for {
		c := readChanges(t, s, q)
		for _, at := range c.List {
			ids = append(ids, at.ID)
			q.After = at
		}
		if !c.More {
			return ids
		}
	}
}

const second = "2026-03-01 10:00:0"

func testChanges(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	s := f.Source.Shard(keyed(table))
	if ids := allChanges(t, s, source.ChangeQuery{Limit: 5}); len(ids) != 0 {
		t.Fatalf("an empty table has the changes %d", ids)
	}
	f.InsertKeyed(t, table,
		KeyedRow{ID: 1, Name: "a", Modified: second + "2.000"}, KeyedRow{ID: 2, Name: "b", Modified: second + "1.000"},
		KeyedRow{ID: 3, Name: "c"}, KeyedRow{ID: 4, Name: "d", Modified: second + "2.000"}, KeyedRow{ID: 5, Name: "e", Modified: second + "2.001"},
		KeyedRow{ID: 6, Name: "f", Modified: second + "2.000"}, KeyedRow{ID: 7, Name: "g", Modified: second + "3.500"}, KeyedRow{ID: 8, Name: "h", Modified: second + "1.999"})
	want := []uint64{2, 8, 1, 4, 6, 5, 7}
	for limit := 1; limit < 10; limit++ {
		if ids := allChanges(t, s, source.ChangeQuery{Limit: limit}); !slices.Equal(ids, want) {
			t.Errorf("%d at a time: %d, want %d", limit, ids, want)
		}
	}
	whole := readChanges(t, s, source.ChangeQuery{Limit: 100}).List
	for i, from := range whole {
		for j := i; j < len(whole); j++ {
			to := whole[j].Modified
			end := slices.IndexFunc(whole, func(at source.Cursor) bool { return at.Modified > to })
			if end < 0 {
				end = len(whole)
			}
			q := source.ChangeQuery{After: from, Through: to, Limit: 2}
			if ids := allChanges(t, s, q); !slices.Equal(ids, want[i+1:end]) {
				t.Errorf("after %v through %s: %d, want %d", from, to, ids, want[i+1:end])
			}
		}
		// The row of an id has its MODIFIED in the same form.
		p := read(t, s, source.Query{After: from.ID - 1, Limit: 1})
		if got := string(p.Rows[0].Values[p.Columns.Modified]); got != from.Modified {
			t.Errorf("row %d is modified at %q, the change at %q", from.ID, got, from.Modified)
		}
	}
}

func testMovingChanges(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	s := f.Source.Shard(keyed(table))
	f.InsertKeyed(t, table, KeyedRow{ID: 1, Name: "a", Modified: second + "1.000"}, KeyedRow{ID: 2, Name: "b", Modified: second + "2.000"})
	after := readChanges(t, s, source.ChangeQuery{Limit: 9}).List[1]
	f.Touch(t, table, 1, second+"3.000")
	if ids := allChanges(t, s, source.ChangeQuery{After: after, Limit: 9}); !slices.Equal(ids, []uint64{1}) {
		t.Errorf("after an update: %d", ids)
	}
	f.Touch(t, table, 1, "")
	if ids := allChanges(t, s, source.ChangeQuery{After: after, Limit: 9}); len(ids) != 0 {
		t.Errorf("after an update to NULL: %d", ids)
	}
}

// A moment in the normal form of the column, as a look-back makes it, is a cursor like any other.
func testChangesByClock(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	s := f.Source.Shard(keyed(table))
	var rows []KeyedRow
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 200 {
		at := start.Add(time.Duration(i) * 250 * time.Millisecond)
		rows = append(rows, KeyedRow{ID: uint64(200 - i), Name: fmt.Sprint(i), Modified: at.Format("2006-01-02 15:04:05.000")})
	}
	f.InsertKeyed(t, table, rows...)
	p := read(t, s, source.Query{Limit: 1})
	column := p.Columns.List[p.Columns.Modified]
	for _, from := range []int{0, 7, 100, 199} {
		lower := column.Text(start.Add(time.Duration(from)*250*time.Millisecond), nil)
		upper := column.Text(start.Add(time.Duration(from+10)*250*time.Millisecond), nil)
		ids := allChanges(t, s, source.ChangeQuery{After: source.Cursor{Modified: lower}, Through: upper, Limit: 4})
		if len(ids) != min(11, 200-from) || ids[0] != uint64(200-from) {
			t.Errorf("from %s through %s: %d", lower, upper, ids)
		}
	}
}

func testNoChanges(t *testing.T, f Fixture) {
	without := keyed(f.NewKeyed(t))
	without.Modified = ""
	unindexed := spec(f.NewTable(t))
	unindexed.Modified = "created"
	for name, sp := range map[string]source.Spec{"without MODIFIED": without, "without an index": unindexed} {
		s := f.Source.Shard(sp)
		if err := s.ReadChanges(t.Context(), source.ChangeQuery{Limit: 1}, new(source.Changes)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("%s: %v", name, err)
		}
		if traits, err := s.Traits(t.Context()); err != nil || traits.ModifiedIndexed {
			t.Errorf("%s: indexed %t, %v", name, traits.ModifiedIndexed, err)
		}
	}
}
