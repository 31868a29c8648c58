package storetest

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"bridge/checkpoint/store"
)

func byRow(t *testing.T, s store.Store, key store.Key, after uint64, limit int) []store.Change {
	t.Helper()
	list, err := s.ByRow(ctx, key, after, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// named returns the changes of a view that give entities with these numbers their entries.
func named(numbers ...uint64) []store.Change {
	var list []store.Change
	for _, n := range numbers {
		list = append(list, store.Change{Entity: entity(n), Entry: Entry(n)})
	}
	return list
}

// changes returns a batch with changes of the view of orders.
func changes(list ...store.Change) *store.Batch {
	return &store.Batch{Views: []store.ViewChange{{Stream: Orders.Stream, Changes: list}}}
}

// in returns the entry of an entity in a row.
func in(shard string, row, n uint64) store.Change {
	e := Entry(4)
	e.Shard, e.Row = shard, row
	return store.Change{Entity: entity(n), Entry: e}
}

// testByRow: Entry(2), Entry(6) and Entry(10) are absent.
func testByRow(t *testing.T, f Fixture) {
	apply(t, f, view(Orders.Stream, 1, 11))
	high := in(Orders.Shard, math.MaxUint64, 12)
	apply(t, f, changes(high, in("db.orders_1", 1, 13), in(Orders.Shard, 0, 14)))
	for range 2 {
		for after, want := range map[uint64][]store.Change{
			0: append(named(1, 3, 4, 5, 7, 8, 9, 11), high), 5: append(named(7, 8, 9, 11), high), 6: append(named(7, 8, 9, 11), high),
			11: {high}, math.MaxUint64 - 1: {high}, math.MaxUint64: nil,
		} {
			equal(t, fmt.Sprint("above ", after), byRow(t, f, Orders, after, 99), want)
		}
		equal(t, "another shard", byRow(t, f, store.Key{Stream: Orders.Stream, Shard: "db.orders_1"}, 0, 99), []store.Change{in("db.orders_1", 1, 13)})
		equal(t, "no shard", byRow(t, f, Items, 0, 99), []store.Change(nil))
		if f.Reopen == nil {
			return
		}
		f.Store = f.Reopen()
	}
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

func testMoves(t *testing.T, f Fixture) {
	apply(t, f, changes(in("a", 1, 1), in("a", 2, 2), in("a", 2, 3)))
	absent := store.Change{Entity: entity(2), Entry: Entry(2)}
	absent.Entry.Shard = "a"
	for i, step := range []struct {
		batch *store.Batch
		a, b  []store.Change
	}{
		{changes(in("a", 7, 1)), []store.Change{in("a", 2, 2), in("a", 2, 3), in("a", 7, 1)}, nil},
		{changes(in("b", 7, 1)), []store.Change{in("a", 2, 2), in("a", 2, 3)}, []store.Change{in("b", 7, 1)}},
		{changes(absent), []store.Change{in("a", 2, 3)}, []store.Change{in("b", 7, 1)}},
		{changes(in("a", 9, 2), store.Change{Entity: entity(3)}), []store.Change{in("a", 9, 2)}, []store.Change{in("b", 7, 1)}},
		{changes(in("b", 1, 2), in("b", 2, 2), in("a", 3, 2)), []store.Change{in("a", 3, 2)}, []store.Change{in("b", 7, 1)}},
		{&store.Batch{Views: append(changes(in("b", 8, 1), in("b", 9, 1)).Views, changes(in("a", 1, 1)).Views...)}, []store.Change{in("a", 1, 1), in("a", 3, 2)}, nil},
		{&store.Batch{Forget: []string{Orders.Stream}, Views: changes(in("b", 1, 2)).Views}, nil, []store.Change{in("b", 1, 2)}},
		{changes(store.Change{Entity: entity(2)}, store.Change{Entity: entity(5)}), nil, nil},
	} {
		apply(t, f, step.batch)
		equal(t, fmt.Sprint("a after step ", i), byRow(t, f, store.Key{Stream: Orders.Stream, Shard: "a"}, 0, 99), step.a)
		equal(t, fmt.Sprint("b after step ", i), byRow(t, f, store.Key{Stream: Orders.Stream, Shard: "b"}, 0, 99), step.b)
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
	back, later := in(Orders.Shard, 6, 6), named(10)[0]
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
