package storetest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
)

func byRow(t *testing.T, s store.Store, key store.Key, after uint64, limit int) []store.Change {
	t.Helper()
	list, err := s.ByRow(ctx, key, after, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// in returns the entry of an entity in a row.
func in(shard string, row, n uint64) store.Change {
	e := Entry(4)
	e.Shard, e.Row = shard, row
	return store.Change{Entity: entity(n), Entry: e}
}

// changes returns a batch with changes of the view of orders.
func changes(list ...store.Change) *store.Batch {
	return &store.Batch{Views: []store.ViewChange{{Stream: Orders.Stream, Changes: list}}}
}

func testPages(t *testing.T, f Fixture) {
	all := []store.Change{in(Orders.Shard, 3, 9), in(Orders.Shard, 4, 5), in(Orders.Shard, 4, 6), in(Orders.Shard, 4, 8), in(Orders.Shard, 5, 1), in(Orders.Shard, 6, 2)}
	// One entity is the beginning of another.
	all[1].Entity, all[2].Entity = []byte("a"), []byte{'a', 0}
	apply(t, f, changes(all...))
	for _, want := range []struct{ limit, first, second int }{{0, 1, 4}, {1, 1, 4}, {2, 4, 6}, {4, 4, 6}, {5, 5, 6}, {6, 6, 6}} {
		got := byRow(t, f, Orders, 0, want.limit)
		equal(t, fmt.Sprint("page of ", want.limit), got, all[:want.first])
		kept := bytes.Clone(got[0].Entity)
		got, err := f.ByRow(ctx, Orders, got[len(got)-1].Entry.Row, want.limit, got)
		equal(t, "error", err, nil)
		equal(t, fmt.Sprint("two pages of ", want.limit), got, all[:want.second])
		equal(t, "an entity of the first page", got[0].Entity, kept)
	}
}

func testForgetAbsent(t *testing.T, f Fixture) {
	apply(t, f, view(Orders.Stream, 1, 24))
	apply(t, f, view(Items.Stream, 1, 24))
	forget := func(before time.Time, limit, want int, left ...uint64) {
		t.Helper()
		n, err := f.ForgetAbsent(ctx, Orders.Stream, before, limit)
		equal(t, "forgotten", []any{n, err}, []any{want, error(nil)})
		var absent []uint64
		for _, c := range scan(t, f, Orders.Stream) {
			if c.Entry.State == store.Absent {
				absent = append(absent, c.Entry.Row)
			}
		}
		equal(t, "absent", absent, left)
	}
	// One comes back, one was found absent later than its number says.
	back, later := in(Orders.Shard, 6, 6), store.Change{Entity: entity(10), Entry: Entry(10)}
	later.Entry.Since = Entry(18).Since.Add(time.Minute)
	apply(t, f, changes(back, later))
	forget(Entry(2).Since, 9, 0, 2, 10, 14, 18, 22)
	forget(Entry(2).Since.Add(time.Nanosecond), 9, 1, 10, 14, 18, 22)
	forget(Entry(22).Since, 0, 0, 10, 14, 18, 22)
	forget(Entry(22).Since, 2, 2, 10, 22)
	forget(Entry(22).Since, 2, 1, 22)
	forget(Entry(22).Since, 2, 0, 22)
	equal(t, "entries", len(scan(t, f, Orders.Stream)), 24-4)
	equal(t, "entries of another stream", len(scan(t, f, Items.Stream)), 24)
	apply(t, f, changes(in(Orders.Shard, 2, 2)))
	if n, err := f.ForgetAbsent(ctx, "unknown", day.AddDate(9, 0, 0), 9); n != 0 || err != nil {
		t.Errorf("of an unknown stream %d are forgotten, %v", n, err)
	}
	forget(day.AddDate(9, 0, 0), 9, 1)
	equal(t, "entries", len(scan(t, f, Orders.Stream)), 20)
}
