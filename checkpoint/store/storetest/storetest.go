package storetest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/source"
)

// Fixture is a store under test.
type Fixture struct {
	store.Store
	// Reopen closes the store and opens it again; nil for a store that ends with the process.
	Reopen func() store.Store
}

// Run runs the suite, with so many random batches. open returns an empty store.
func Run(t *testing.T, batches int, open func(t *testing.T) Fixture) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"an empty store holds nothing", testEmpty},
		{"what was applied is loaded", testLoad},
		{"a later batch replaces an earlier one", testReplace},
		{"parts begin with the last one at or below", testParts},
		{"parts are cleared before parts are added", testClear},
		{"a lookup keeps the order of the entities", testLookup},
		{"a view is read by row", testByRow},
		{"rows are read in pages", testPages},
		{"an entity is in one row", testMoves},
		{"a former absence is forgotten", testForgetAbsent},
		{"a scan has every entity", testScan},
		{"a scan sees one image", testScanImage},
		{"streams are apart", testStreams},
		{"a stream is forgotten before it is written", testForget},
		{"an invalid batch changes nothing", testInvalid},
		{"a cancelled context is heeded", testCancelled},
		{"a closed store refuses", testClosed},
		{"readers see whole batches", testWhole},
		{"random batches do as in a plain map", func(t *testing.T, f Fixture) { testModel(t, f, batches) }},
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

// view returns a batch that gives entities with the numbers from to last their entries.
func view(stream string, first, last uint64) *store.Batch {
	v := store.ViewChange{Stream: stream}
	for n := first; n <= last; n++ {
		v.Changes = append(v.Changes, store.Change{Entity: entity(n), Entry: Entry(n)})
	}
	return &store.Batch{Views: []store.ViewChange{v}}
}

func apply(t *testing.T, s store.Store, b *store.Batch) {
	t.Helper()
	if err := s.Apply(ctx, b); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, s store.Store) store.Image {
	t.Helper()
	image, err := s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func parts(t *testing.T, s store.Store, key store.Key, kind store.Kind, from uint64) []store.Part {
	t.Helper()
	var list []store.Part
	for p, err := range s.Parts(ctx, key, kind, from) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// scan returns the entries of a stream in the order of their entities.
func scan(t *testing.T, s store.Store, stream string) []store.Change {
	t.Helper()
	var list []store.Change
	for c, err := range s.Scan(ctx, stream) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, store.Change{Entity: bytes.Clone(c.Entity), Entry: c.Entry})
	}
	slices.SortFunc(list, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	return list
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got\n%+v\nwant\n%+v", what, got, want)
	}
}

func testEmpty(t *testing.T, f Fixture) {
	for range 2 {
		equal(t, "image", load(t, f), store.Image{Shards: map[store.Key]store.Progress{}})
		got, err := f.Lookup(ctx, "orders", store.Asks(entity(1)), nil)
		if err != nil || len(got) != 1 || got[0] != (store.Entry{}) {
			t.Fatalf("lookup: %v, %v", got, err)
		}
		if n := len(scan(t, f, "orders")) + len(parts(t, f, Orders, store.Gaps, 0)); n != 0 {
			t.Fatalf("an empty store has %d values", n)
		}
		if err := f.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if f.Reopen == nil {
			return
		}
		f.Store = f.Reopen()
	}
}

func testLoad(t *testing.T, f Fixture) {
	p, q := Progress(7), store.Progress{}
	least := store.Registration{Number: 1<<32 - 1, Stream: "items", TP: "items/0"}
	apply(t, f, &store.Batch{Epoch: 1 << 63, Registrations: []store.Registration{least, Registration(300), Registration(1)}, Shards: []store.ShardChange{
		{Key: Orders, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Number: 1<<64 - 1, Bytes: []byte("x")}, {Kind: store.Gaps, Bytes: []byte{}}}},
		{Key: Items, Progress: &q},
		{Key: store.Key{Stream: "items", Shard: "none"}, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("y")}}},
	}})
	apply(t, f, view("orders", 1, 9))
	want := store.Image{Epoch: 1 << 63, Registrations: []store.Registration{Registration(1), Registration(300), least}, Shards: map[store.Key]store.Progress{Orders: p, Items: q}}
	for range 2 {
		equal(t, "image", load(t, f), want)
		for key, found := range map[store.Key]bool{Orders: true, Items: true, {Stream: "items", Shard: "none"}: false, {Stream: "orders", Shard: "db.items"}: false} {
			got, ok, err := f.Progress(ctx, key)
			equal(t, fmt.Sprint("progress of ", key), []any{got, ok, err}, []any{want.Shards[key], found, nil})
		}
		equal(t, "parts", parts(t, f, Orders, store.Gaps, 0), []store.Part{{Kind: store.Gaps, Bytes: []byte{}}, {Kind: store.Gaps, Number: 1<<64 - 1, Bytes: []byte("x")}})
		equal(t, "view", scan(t, f, "orders"), view("orders", 1, 9).Views[0].Changes)
		if f.Reopen == nil {
			return
		}
		f.Store = f.Reopen()
	}
}

func testReplace(t *testing.T, f Fixture) {
	for n := uint64(1); n < 4; n++ {
		p, r := Progress(n), Registration(uint32(n))
		r.Number = 1
		apply(t, f, &store.Batch{Epoch: n, Registrations: []store.Registration{r}, Shards: []store.ShardChange{{Key: Orders, Progress: &p}}})
		want := store.Image{Epoch: n, Registrations: []store.Registration{r}, Shards: map[store.Key]store.Progress{Orders: p}}
		equal(t, "image", load(t, f), want)
		apply(t, f, &store.Batch{Shards: []store.ShardChange{{Key: Orders}}})
		equal(t, "image after a batch without them", load(t, f), want)
	}
	apply(t, f, view("orders", 1, 1))
	apply(t, f, &store.Batch{Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{
		{Entity: entity(1), Entry: Entry(2)}, {Entity: entity(1), Entry: Entry(3)}, {Entity: entity(2), Entry: Entry(2)}, {Entity: entity(2)}}}}})
	equal(t, "view", scan(t, f, "orders"), []store.Change{{Entity: entity(1), Entry: Entry(3)}})
	equal(t, "image", len(load(t, f).Shards), 1)
}

func numbers(list []store.Part) []uint64 {
	var all []uint64
	for _, p := range list {
		all = append(all, p.Number)
	}
	return all
}

func testParts(t *testing.T, f Fixture) {
	c := store.ShardChange{Key: Orders}
	for _, n := range []uint64{300, 1, 20} {
		c.Parts = append(c.Parts, store.Part{Kind: store.Gaps, Number: n, Bytes: []byte{byte(n)}}, store.Part{Kind: store.Published, Number: n + 1, Bytes: []byte("p")})
	}
	apply(t, f, &store.Batch{Shards: []store.ShardChange{c}})
	for _, want := range []struct {
		from uint64
		all  []uint64
	}{{0, []uint64{1, 20, 300}}, {1, []uint64{1, 20, 300}}, {19, []uint64{1, 20, 300}}, {20, []uint64{20, 300}}, {299, []uint64{20, 300}}, {1 << 63, []uint64{300}}} {
		equal(t, fmt.Sprint("parts from ", want.from), numbers(parts(t, f, Orders, store.Gaps, want.from)), want.all)
	}
	equal(t, "published", numbers(parts(t, f, Orders, store.Published, 0)), []uint64{2, 21, 301})
	for range f.Parts(ctx, Orders, store.Gaps, 0) {
		break
	}
	equal(t, "no meaning", parts(t, f, Orders, store.MeaningPart, 0), []store.Part(nil))
	equal(t, "no shard", parts(t, f, Items, store.Gaps, 0), []store.Part(nil))
}

func testClear(t *testing.T, f Fixture) {
	part := func(n uint64, b []byte) store.Part { return store.Part{Kind: store.Gaps, Number: n, Bytes: b} }
	apply(t, f, &store.Batch{Shards: []store.ShardChange{{Key: Orders, Parts: []store.Part{part(1, []byte("a")), part(2, []byte("b")), {Kind: store.Published, Bytes: []byte("c")}}}}})
	apply(t, f, &store.Batch{Shards: []store.ShardChange{{Key: Orders, Parts: []store.Part{part(1, nil)}}}})
	equal(t, "gaps", numbers(parts(t, f, Orders, store.Gaps, 0)), []uint64{2})
	apply(t, f, &store.Batch{Shards: []store.ShardChange{{Key: Orders, Clear: []store.Kind{store.Gaps}, Parts: []store.Part{part(3, []byte("d"))}}}})
	equal(t, "gaps", numbers(parts(t, f, Orders, store.Gaps, 0)), []uint64{3})
	equal(t, "published", len(parts(t, f, Orders, store.Published, 0)), 1)
}

func testLookup(t *testing.T, f Fixture) {
	apply(t, f, view("orders", 10, 19))
	ask := store.Asks(entity(19), entity(3), entity(10), entity(10), []byte("customer+0001"), []byte("customer+000100"), []byte{0xff})
	got, err := f.Lookup(ctx, "orders", ask, []store.Entry{Entry(1)})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Entry{Entry(1), Entry(19), {}, Entry(10), Entry(10), {}, {}, {}}
	equal(t, "lookup", got, want)
	// Also by rows that are right, wrong, or in no shard.
	for i := range ask {
		ask[i].Shard, ask[i].Row = []string{Orders.Shard, "", "unknown"}[i%3], uint64(19-i)
	}
	got, err = f.Lookup(ctx, "orders", ask, got[:1])
	equal(t, "error", err, nil)
	equal(t, "lookup by rows", got, want)
}

func testScan(t *testing.T, f Fixture) {
	long := bytes.Repeat([]byte{0xff}, store.MaxEntity)
	all := [][]byte{{0}, {0, 0}, []byte("a"), []byte("a+b"), []byte("b"), {0xff}, long}
	v := store.ViewChange{Stream: "orders"}
	for i := range all {
		v.Changes = append(v.Changes, store.Change{Entity: all[len(all)-1-i], Entry: Entry(1)})
	}
	apply(t, f, &store.Batch{Views: []store.ViewChange{v}})
	var got [][]byte
	for _, c := range scan(t, f, "orders") {
		got = append(got, c.Entity)
	}
	equal(t, "scan", got, all)
	n := 0
	for range f.Scan(ctx, "orders") {
		if n++; n == 2 {
			break
		}
	}
}

func testScanImage(t *testing.T, f Fixture) {
	apply(t, f, view("orders", 0, 99))
	var got []store.Change
	for c, err := range f.Scan(ctx, "orders") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, store.Change{Entity: bytes.Clone(c.Entity), Entry: c.Entry}); len(got) == 10 {
			b := view("orders", 50, 150)
			b.Views[0].Changes = append(b.Views[0].Changes, store.Change{Entity: entity(20)})
			for i := range 50 {
				b.Views[0].Changes[i].Entry = Entry(1)
			}
			apply(t, f, b)
			if err := f.Sync(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortFunc(got, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	equal(t, "entries", got, view("orders", 0, 99).Views[0].Changes)
	equal(t, "entries after it", len(scan(t, f, "orders")), 150)
}
