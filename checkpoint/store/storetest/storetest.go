package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// Fixture is a store under test.
type Fixture struct {
	store.Store
	// Reopen closes the store and opens it again; nil for a store that ends with the process.
	Reopen func() store.Store
}

// Run runs the suite. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"what was applied is loaded", testLoad},
		{"a scan sees one image", testScanImage},
		{"an invalid batch changes nothing", testInvalid},
		{"a cancelled context is heeded, and a closed store refuses", testClosed},
		{"readers see whole batches", testWhole},
		{"random batches do as in memory", func(t *testing.T, f Fixture) { RunBatches(t, f, 30) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			c.run(t, f)
		})
	}
}

var ctx = context.Background()

// Orders and Items are shards for tests.
var (
	Orders = store.Key{Stream: "orders", Shard: "db.orders"}
	Items  = store.Key{Stream: "items", Shard: "db.items"}
)

var day = time.Date(2026, 11, 23, 12, 0, 0, 123456000, time.UTC)

// Asks asks for the entries of entities of which nothing is known.
func Asks(entities ...[]byte) []store.Ask {
	asks := make([]store.Ask, len(entities))
	for i, entity := range entities {
		asks[i].Entity = entity
	}
	return asks
}

// Progress returns the n-th progress of a shard.
func Progress(n uint64) store.Progress {
	return store.Progress{
		Position: n, Cursor: source.Cursor{Modified: fmt.Sprint("2026-11-23 ", n), ID: n},
		Started: n%2 == 1, Floor: n / 2, Since: 1_795_000_000_000, Low: n / 3, Snapshot: source.Range{First: n, Last: 2 * n},
		Saved: day.Add(time.Duration(n) * time.Second), ReconcileDue: n%3 == 1,
	}
}

// Registration returns the registration with the number n.
func Registration(n uint32) store.Registration {
	at := 10 * uint64(n)
	return store.Registration{
		Number: n, Stream: Orders.Stream, TP: fmt.Sprint("orders/", n%3), Incarnation: fmt.Sprint("made ", n), Next: at + 8,
		Last: store.Anchor{Offset: at + 7, Hash: 1 << 63}, High: store.Anchor{Offset: at + 9, Hash: at}, Epoch: 1_795_000_000_000, Seen: 1_795_000_000_000 + at, Late: n%2 == 1, Retired: n%3 == 1,
	}
}

// Entry returns the n-th entry of an entity.
func Entry(n uint64) store.Entry {
	e := store.Entry{Shard: Orders.Shard, Row: n, At: store.At{TP: uint32(1 + n%3), Offset: n}, Epoch: 1_795_000_000_000, Seq: n, State: store.EntryState(1 + n%4), Disputed: n%5 == 1}
	e.Event[0], e.Event[15] = byte(n), 7
	if e.State == store.Absent {
		e.Since = day.Add(time.Duration(n) * time.Minute).Truncate(time.Second)
	} else {
		e.Digest[3] = byte(n >> 8)
	}
	return e
}

func entity(n uint64) []byte { return fmt.Appendf(nil, "customer+%05d", n) }

func view(stream string, first, last uint64) *store.Batch {
	v := store.ViewChange{Stream: stream}
	for n := first; n <= last; n++ {
		v.Changes = append(v.Changes, store.Change{Entity: entity(n), Entry: Entry(n)})
	}
	return &store.Batch{Views: []store.ViewChange{v}}
}

func partsFrom(s store.Store, key store.Key, kind store.Kind, from uint64) (list []store.Part, err error) {
	for p, err := range s.Parts(ctx, key, kind, from) {
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func scanAll(s store.Store, stream string) (list []store.Change, err error) {
	for c, err := range s.Scan(ctx, stream) {
		if err != nil {
			return nil, err
		}
		list = append(list, store.Change{Entity: bytes.Clone(c.Entity), Entry: c.Entry})
	}
	slices.SortFunc(list, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	return list, nil
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got\n%+v\nwant\n%+v", what, got, want)
	}
}

func testLoad(t *testing.T, f Fixture) {
	p, q := Progress(7), store.Progress{}
	least := store.Registration{Number: 1<<32 - 1, Stream: "items", TP: "items/0"}
	must.OK(t, f.Apply(ctx, &store.Batch{Epoch: 1 << 63, Registrations: []store.Registration{least, Registration(300), Registration(1)}, Shards: []store.ShardChange{
		{Key: Orders, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Number: 1<<64 - 1, Bytes: []byte("x")}, {Kind: store.Gaps, Bytes: []byte{}}}},
		{Key: Items, Progress: &q},
		{Key: store.Key{Stream: "items", Shard: "none"}, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("y")}}},
	}}))
	long, high, first := in(Orders.Shard, 3, 1), in(Orders.Shard, math.MaxUint64, 2), in(Orders.Shard, 0, 3)
	long.Entity, high.Entity, first.Entity = bytes.Repeat([]byte{0xff}, store.MaxEntity), []byte{0, 0}, []byte{0}
	must.OK(t, f.Apply(ctx, changes(long, high, first)))
	want := store.Image{Epoch: 1 << 63, Registrations: []store.Registration{Registration(1), Registration(300), least}, Shards: map[store.Key]store.Progress{Orders: p, Items: q}}
	for range 2 {
		equal(t, "image", must.Get(f.Load(ctx))(t), want)
		for key, found := range map[store.Key]bool{Orders: true, Items: true, {Stream: "items", Shard: "none"}: false, {Stream: "orders", Shard: "db.items"}: false} {
			got, ok, err := f.Progress(ctx, key)
			equal(t, fmt.Sprint("progress of ", key), []any{got, ok, err}, []any{want.Shards[key], found, nil})
		}
		equal(t, "parts", must.Get(partsFrom(f, Orders, store.Gaps, 0))(t), []store.Part{{Kind: store.Gaps, Bytes: []byte{}}, {Kind: store.Gaps, Number: 1<<64 - 1, Bytes: []byte("x")}})
		equal(t, "view", must.Get(scanAll(f, Orders.Stream))(t), []store.Change{first, high, long})
		equal(t, "by row", must.Get(f.ByRow(ctx, Orders, 0, 9, nil))(t), []store.Change{long, high})
		equal(t, "above the highest row", must.Get(f.ByRow(ctx, Orders, math.MaxUint64, 9, nil))(t), []store.Change(nil))
		if f.Reopen == nil {
			return
		}
		f.Store = f.Reopen()
	}
}

func testScanImage(t *testing.T, f Fixture) {
	must.OK(t, f.Apply(ctx, view("orders", 0, 99)))
	var got []store.Change
	for c, err := range f.Scan(ctx, "orders") {
		must.OK(t, err)
		if got = append(got, store.Change{Entity: bytes.Clone(c.Entity), Entry: c.Entry}); len(got) == 10 {
			b := view("orders", 50, 150)
			b.Views[0].Changes = append(b.Views[0].Changes, store.Change{Entity: entity(20)})
			for i := range 50 {
				b.Views[0].Changes[i].Entry = Entry(1)
			}
			must.OK(t, f.Apply(ctx, b))
			must.OK(t, f.Sync(ctx))
		}
	}
	slices.SortFunc(got, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	equal(t, "entries", got, view("orders", 0, 99).Views[0].Changes)
	equal(t, "entries after it", len(must.Get(scanAll(f, "orders"))(t)), 150)
}

// in returns the entry of an entity in a row.
func in(shard string, row, n uint64) store.Change {
	e := Entry(4)
	e.Shard, e.Row = shard, row
	return store.Change{Entity: entity(n), Entry: e}
}

func changes(list ...store.Change) *store.Batch {
	return &store.Batch{Views: []store.ViewChange{{Stream: Orders.Stream, Changes: list}}}
}
