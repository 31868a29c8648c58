package buscopy_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/share"
	"example.org/bridge/tests/must"
)

type sharer struct {
	*buscopy.Keeper
	t     *testing.T
	store *storememory.Store
	slot  buscopy.Slot
}

func newSharer(t *testing.T, b buscopy.Bucket, slot buscopy.Slot, epoch uint64) *sharer {
	s := &sharer{t: t, store: storememory.New(), slot: slot}
	s.Keeper = buscopy.NewKeeper(buscopy.Options{
		Bucket: b, Domain: "d", Streams: []buscopy.Stream{{Name: "facts", Release: true, Placed: func(shard string) buscopy.Placed {
			return buscopy.Placed{Table: shard, All: strings.HasSuffix(shard, "*"), Any: shard == "pause"}
		}}},
		Still: func(_ context.Context, do func(store.Store) error) error { return do(s.store) },
		Epoch: func(string) uint64 { return epoch }, Slot: func() buscopy.Slot { return slot }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	return s
}

// works has the process go on from the copies, publish of tables up to a position, having read the
// TP to an offset, and write its copy.
func (s *sharer) works(tables []string, position, next uint64) {
	s.t.Helper()
	if _, _, err := s.Load(s.t.Context(), "facts"); err != nil {
		s.t.Fatal(err)
	}
	b := &store.Batch{Registrations: []store.Registration{{Number: 1, Stream: "facts", TP: "facts/0", Incarnation: "1", Next: next, Epoch: position}}}
	for _, table := range append(slices.Clone(tables), "t*") {
		if strings.HasSuffix(table, "*") || s.slot.Has("facts", table) {
			b.Shards = append(b.Shards, store.ShardChange{Key: store.Key{Stream: "facts", Shard: table}, Progress: &store.Progress{Position: position, Started: true}})
		}
	}
	must.OK(s.t, s.store.Apply(s.t.Context(), b))
	must.OK(s.t, s.Write(s.t.Context(), "facts"))
}

// finds returns the positions from which a process goes on, with the offset.
func (s *sharer) finds() (positions map[string]uint64, next uint64) {
	s.t.Helper()
	c, _, err := s.Load(s.t.Context(), "facts")
	must.OK(s.t, err)
	positions = make(map[string]uint64)
	for _, one := range c.Shards {
		positions[one.Name] = one.Progress.Position
	}
	for _, r := range c.Registrations {
		next = r.Next
	}
	return positions, next
}

func slotOf(generation uint64, index, number int) buscopy.Slot {
	return buscopy.Slot{Generation: generation, Share: share.Share{Index: index, Number: number}}
}

// TestTablesGoOnWhenTheNumberOfSharesChanges: each table from the copy of the one that had it last,
// and reading from the lowest of their offsets. What another share still needs stays.
func TestTablesGoOnWhenTheNumberOfSharesChanges(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	var tables []string
	for i := range 12 {
		tables = append(tables, fmt.Sprint("t", i))
	}
	expect := func(s *sharer, of func(table string) uint64, wantNext uint64, pattern bool) {
		t.Helper()
		positions, next := s.finds()
		for _, table := range tables {
			want := uint64(0)
			if s.slot.Has("facts", table) {
				want = of(table)
			}
			if positions[table] != want {
				t.Errorf("share %s finds %s at %d, want %d", s.slot.Share, table, positions[table], want)
			}
		}
		if _, has := positions["t*"]; has != pattern || next != wantNext {
			t.Errorf("share %s finds the pattern: %v, and reads from %d, want %v and %d", s.slot.Share, has, next, pattern, wantNext)
		}
	}
	newSharer(t, b, buscopy.Slot{}, 10).works(tables, 100, 1000)
	expect(newSharer(t, b, slotOf(1, 1, 2), 20), func(string) uint64 { return 100 }, 1000, true)
	newSharer(t, b, slotOf(1, 0, 2), 20).works(tables, 200, 2000)

	// The other one was never there: its tables go on from the former number.
	of := func(table string) uint64 {
		if share.Of(2, "facts", table) == 0 {
			return 200
		}
		return 100
	}
	// It has tables of both.
	index := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool {
		from := make(map[int]bool)
		for _, table := range tables {
			if share.Of(3, "facts", table) == i {
				from[share.Of(2, "facts", table)] = true
			}
		}
		return len(from) == 2
	})
	third := newSharer(t, b, slotOf(2, index, 3), 30)
	expect(third, of, 1000, true)
	newSharer(t, b, slotOf(1, 1, 2), 21).works(tables, 300, 1500)
	expect(third, func(table string) uint64 { return 200 + 100*uint64(share.Of(2, "facts", table)) }, 1500, true)

	// Processes of former numbers hold nothing back, and their copies count no more, however high
	// their epochs are.
	for i := range 3 {
		newSharer(t, b, slotOf(2, i, 3), 31).works(tables, 400, 3000)
	}
	newSharer(t, b, slotOf(1, 1, 2), 99).works(tables, 1, 1)
	for i := range 3 {
		expect(newSharer(t, b, slotOf(2, i, 3), 32), func(string) uint64 { return 400 }, 3000, true)
	}
	expect(newSharer(t, b, slotOf(3, 0, 0), 33), func(string) uint64 { return 400 }, 3000, true)
	newSharer(t, b, slotOf(3, 0, 0), 33).works(tables, 500, 4000)
	entries, err := b.Entries(t.Context(), "")
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v are left", err, keys(entries))
	}
}

// TestATableThatWasDropped: what the one that had it last lacks does not come back from a copy of
// before.
func TestATableThatWasDropped(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	newSharer(t, b, buscopy.Slot{}, 10).works([]string{"a", "b"}, 100, 1000)
	newSharer(t, b, slotOf(1, 0, 1), 20).works([]string{"a"}, 200, 2000)
	s := newSharer(t, b, slotOf(2, 0, 0), 30)
	if positions, _ := s.finds(); positions["a"] != 200 || positions["b"] != 0 {
		t.Errorf("it goes on from %v", positions)
	}
	c, _, err := s.Load(t.Context(), "facts")
	if err != nil || !c.Lacks("b") || c.Lacks("a") {
		t.Errorf("%v: a is dropped: %v, b: %v", err, c.Lacks("a"), c.Lacks("b"))
	}
}

// TestACommandToOneShare holds for all of the next number, and the later one of two.
func TestACommandToOneShare(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	for i := range 3 {
		s := newSharer(t, b, slotOf(1, i, 3), 10)
		if i < 2 {
			p := store.Progress{Since: uint64(100 + i), Floor: uint64(i)}
			must.OK(t, s.store.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "facts", Shard: "pause"}, Progress: &p}}}))
		}
		s.works([]string{"t0", "t1", "t2", "t3", "t4", "t5"}, 100, 1000)
	}
	for i := range 2 {
		c, _, err := newSharer(t, b, slotOf(2, i, 2), 20).Load(t.Context(), "facts")
		at := slices.IndexFunc(c.Shards, func(s buscopy.Shard) bool { return s.Name == "pause" })
		if err != nil || at < 0 || c.Shards[at].Progress.Since != 101 || c.Shards[at].Progress.Floor != 1 {
			t.Errorf("share %d goes on from %+v: %v", i, c.Shards, err)
		}
	}
}

// TestWhatTheBusHasLostOfOneShare shows to the next owner: it reads from the lowest offset, and
// knows the last message of each. A topic that was made again between two copies is neither.
func TestWhatTheBusHasLostOfOneShare(t *testing.T) {
	t.Parallel()
	tables := []string{"t0", "t1", "t2", "t3", "t4", "t5"}
	load := func(first, second store.Registration) store.Registration {
		t.Helper()
		b := new(buckettest.Memory)
		for i, r := range []store.Registration{first, second} {
			s := newSharer(t, b, slotOf(1, i, 2), 10)
			r.Number, r.Stream = 2, "facts"
			must.OK(t, s.store.Apply(t.Context(), &store.Batch{Registrations: []store.Registration{r}}))
			s.works(tables, 100, 1000)
		}
		c, found, err := newSharer(t, b, slotOf(2, 0, 0), 20).Load(t.Context(), "facts")
		at := slices.IndexFunc(c.Registrations, func(r store.Registration) bool { return r.TP == "facts/1" })
		if err != nil || !found || at < 0 {
			t.Fatalf("%v, %v: %+v", found, err, c.Registrations)
		}
		return c.Registrations[at]
	}
	low := store.Registration{TP: "facts/1", Incarnation: "1", Next: 3, Last: store.Anchor{Offset: 2, Hash: 5}, High: store.Anchor{Offset: 2, Hash: 5}}
	high := store.Registration{TP: "facts/1", Incarnation: "1", Next: 6, Last: store.Anchor{Offset: 5, Hash: 7}, High: store.Anchor{Offset: 4, Hash: 6}}
	want := low
	want.High = high.Last
	for _, got := range []store.Registration{load(low, high), load(high, low)} {
		if got.Number, got.Stream = 0, ""; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	want.Next, want.Last = 0, store.Anchor{}
	if got := load(store.Registration{TP: "facts/2"}, high); got.Next != 0 || got.Last != want.Last || got.High != want.High {
		t.Errorf("one that one copy lacks is %+v", got)
	}
	high.Incarnation = "2"
	if got := load(low, high); got.Incarnation == "1" || got.Incarnation == "2" || got.Incarnation == "" {
		t.Errorf("one that was made again is %+v", got)
	}
}

// TestAShareWithoutATable that is there still goes on from what all shares know of a pattern, and
// from a pause, as long as it has no copy.
func TestAShareWithoutATable(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	for i := range 2 {
		s := newSharer(t, b, slotOf(1, i, 2), 10)
		must.OK(t, s.store.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "facts", Shard: "pause"}, Progress: &store.Progress{Since: 5}}}}))
		s.works([]string{"t0"}, 100, 1000)
	}
	with := share.Of(8, "facts", "t0")
	// The owner of the one table deletes what nobody needs.
	newSharer(t, b, slotOf(2, with, 8), 20).works([]string{"t0"}, 200, 2000)
	for i := range 8 {
		positions, _ := newSharer(t, b, slotOf(2, i, 8), 20).finds()
		_, pattern := positions["t*"]
		_, pause := positions["pause"]
		if _, found, err := newSharer(t, b, slotOf(2, i, 8), 20).Load(t.Context(), "facts"); !found || err != nil || !pattern || i != with && !pause {
			t.Errorf("share %d finds %v: %v, %v", i, positions, found, err)
		}
	}
}

// TestTheCopiesOfManyTables: twenty times as many take no hundred times as long.
func TestTheCopiesOfManyTables(t *testing.T) {
	finds := func(n int) (took time.Duration) {
		b := new(buckettest.Memory)
		tables := make([]string, n)
		for i := range tables {
			tables[i] = fmt.Sprint("t", i)
		}
		for i := range 2 {
			newSharer(t, b, slotOf(1, i, 2), 10).works(tables, 100, 1000)
		}
		for range 3 {
			began := time.Now()
			if positions, _ := newSharer(t, b, slotOf(2, 0, 0), 20).finds(); len(positions) != n+1 {
				t.Errorf("%d of %d tables", len(positions), n)
			}
			if one := time.Since(began); took == 0 || one < took {
				took = one
			}
		}
		return took
	}
	if few, many := finds(500), finds(10_000); many > 100*few {
		t.Errorf("many take %s, few %s", many, few)
	}
}

// TestPeersKeepTheirCopies: a process removes what former ones of its share wrote, and no more.
func TestPeersKeepTheirCopies(t *testing.T) {
	t.Parallel()
	b := new(buckettest.Memory)
	tables := []string{"t0", "t1", "t2", "t3", "t4", "t5"}
	for i := range 3 {
		newSharer(t, b, slotOf(1, i, 3), uint64(10+i)).works(tables, uint64(100+i), 1000)
	}
	for n := range 4 {
		newSharer(t, b, slotOf(1, n%3, 3), uint64(20+n)).works(tables, uint64(200+n), 2000)
		entries, err := b.Entries(t.Context(), "")
		if err != nil || len(entries) != 3 {
			t.Fatalf("%v: %v are left", err, keys(entries))
		}
	}
}
