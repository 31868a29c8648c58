package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"bridge/checkpoint"
	"bridge/source/ledger"
)

func notFound(t *testing.T, f Fixture) {
	mustMiss(t, f.Store, key(1))
	mustSave(t, f.Store, key(1), State(1))
	mustMiss(t, f.Store, key(2))
	mustMiss(t, f.Store, checkpoint.Key{Stream: "other", Shard: key(1).Shard})
}

func saved(t *testing.T, f Fixture) {
	mustSave(t, f.Store, key(1), State(1))
	mustSave(t, f.Store, key(2), checkpoint.State{})
	mustHold(t, f.Store, key(1), State(1))
	mustHold(t, f.Store, key(2), checkpoint.State{})
}

func lastHolds(t *testing.T, f Fixture) {
	for n := range 20 {
		mustSave(t, f.Store, key(1), State(n))
		mustHold(t, f.Store, key(1), State(n))
	}
	// A position may also go back: the operator said so.
	mustSave(t, f.Store, key(1), State(0))
	mustHold(t, f.Store, key(1), State(0))
}

func alike(t *testing.T, f Fixture) {
	keys := []checkpoint.Key{
		{Stream: "a", Shard: "b.c"}, {Stream: "a.b", Shard: "c"}, {Stream: "a", Shard: "b"}, {Stream: "a", Shard: "B"},
		{Stream: "A", Shard: "b"}, {Stream: "a/b", Shard: "/"}, {Stream: "ä€😀", Shard: "tabelle größe"}, {Stream: "state", Shard: "state"},
		{Stream: "a", Shard: "b\x00"}, {Stream: "a\x00", Shard: "b"}, {Stream: "bridge", Shard: "format"},
	}
	for n, k := range keys {
		mustSave(t, f.Store, k, State(n))
	}
	for n, k := range keys {
		mustHold(t, f.Store, k, State(n))
	}
}

func nameless(t *testing.T, f Fixture) {
	for _, k := range []checkpoint.Key{{}, {Stream: "a"}, {Shard: "b"}} {
		if err := f.Store.Save(t.Context(), k, State(1)); err == nil {
			t.Errorf("Save of %+v returns nil", k)
		}
	}
	if entries, err := f.Store.List(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("List returns %v, %v, want nothing", entries, err)
	}
}

func invalid(t *testing.T, f Fixture) {
	mustSave(t, f.Store, key(1), State(1))
	for _, gaps := range [][]ledger.Gap{{{First: 2, Last: 1}}, {{First: 1, Last: 5}, {First: 5, Last: 6}}, {{First: 1, Last: 1 << 62}}} {
		bad := checkpoint.State{Position: ledger.Position{ID: 100, Gaps: gaps}}
		if err := f.Store.Save(t.Context(), key(1), bad); err == nil {
			t.Errorf("Save of gaps %v returns nil", gaps)
		}
		mustHold(t, f.Store, key(1), State(1))
	}
}

func notShared(t *testing.T, f Fixture) {
	mine := State(1)
	mustSave(t, f.Store, key(1), mine)
	spoil(mine)
	mustHold(t, f.Store, key(1), State(1))
	got, err := f.Store.Load(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	spoil(got)
	mustHold(t, f.Store, key(1), State(1))
}

func spoil(s checkpoint.State) {
	clear(s.Position.Gaps)
	clear(s.Offsets)
}

func manyGaps(t *testing.T, f Fixture) {
	s := State(1)
	s.Position.Gaps = nil
	for i := range uint64(200_000) {
		s.Position.Gaps = append(s.Position.Gaps, ledger.Gap{First: 3 * i, Last: 3*i + 1, Missed: s.Saved})
	}
	mustSave(t, f.Store, key(1), s)
	mustHold(t, f.Store, key(1), s)
	mustSave(t, f.Store, key(1), State(2))
	mustHold(t, f.Store, key(1), State(2))
}

func listed(t *testing.T, f Fixture) {
	if entries, err := f.Store.List(t.Context()); err != nil || len(entries) != 0 {
		t.Fatalf("List of an empty store returns %v, %v", entries, err)
	}
	sorted := []checkpoint.Key{{Stream: "a", Shard: "t_0"}, {Stream: "a", Shard: "t_1"}, {Stream: "a", Shard: "t_10"}, {Stream: "a_b", Shard: "a"}, {Stream: "b", Shard: "a"}}
	for _, n := range []int{3, 0, 4, 2, 1} {
		mustSave(t, f.Store, sorted[n], State(n))
	}
	entries, err := f.Store.List(t.Context())
	if err != nil || len(entries) != len(sorted) {
		t.Fatalf("List returns %d entries, %v, want %d", len(entries), err, len(sorted))
	}
	for n, e := range entries {
		if e.Key != sorted[n] || !reflect.DeepEqual(e.State, State(n)) {
			t.Errorf("entry %d is %+v, want %v with state %d", n, e, sorted[n], n)
		}
	}
}

func deleted(t *testing.T, f Fixture) {
	other := checkpoint.Key{Stream: "orders2", Shard: "a"}
	mustSave(t, f.Store, other, State(9))
	for n := range 3 {
		mustSave(t, f.Store, key(n), State(n))
	}
	for _, test := range []struct {
		stream string
		want   int
	}{{"nothing", 0}, {"order", 0}, {"orders", 3}, {"orders", 0}} {
		if n, err := f.Store.Delete(t.Context(), test.stream); err != nil || n != test.want {
			t.Errorf("Delete of %s returns %d, %v, want %d", test.stream, n, err, test.want)
		}
	}
	mustMiss(t, f.Store, key(0))
	mustHold(t, f.Store, other, State(9))
	mustSave(t, f.Store, key(0), State(5))
	mustHold(t, f.Store, key(0), State(5))
}

func sideBySide(t *testing.T, f Fixture) {
	const shards, rounds = 64, 10
	var wg sync.WaitGroup
	for n := range shards {
		wg.Go(func() {
			for round := range rounds {
				want := State(1000*n + round)
				if err := f.Store.Save(t.Context(), key(n), want); err != nil {
					t.Errorf("Save: %v", err)
					return
				}
				got, err := f.Store.Load(t.Context(), key(n))
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("Load after Save returns %+v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for n := range shards {
		mustHold(t, f.Store, key(n), State(1000*n+rounds-1))
	}
}

func oneShard(t *testing.T, f Fixture) {
	const savers = 16
	var wg sync.WaitGroup
	for n := range savers {
		wg.Go(func() {
			if err := f.Store.Save(t.Context(), key(1), State(n)); err != nil {
				t.Errorf("Save: %v", err)
			}
		})
	}
	wg.Wait()
	got, err := f.Store.Load(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	for n := range savers {
		if reflect.DeepEqual(got, State(n)) {
			return
		}
	}
	t.Errorf("the state is %+v, which nobody saved", got)
}

func cancelled(t *testing.T, f Fixture) {
	mustSave(t, f.Store, key(1), State(0))
	before := 0
	for n := 1; n <= 20; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		if n%2 == 0 {
			cancel()
		} else {
			go cancel()
		}
		switch err := f.Store.Save(ctx, key(1), State(n)); {
		case err == nil:
			before = n
		case !errors.Is(err, context.Canceled):
			t.Fatalf("a cancelled Save returns %v, want context.Canceled", err)
		}
		mustHold(t, f.Store, key(1), State(before))
		cancel()
	}
}

func survives(t *testing.T, f Fixture) {
	store := f.Store
	for round := range 3 {
		for n := range 5 {
			mustSave(t, store, key(n), State(100*round+n))
		}
		gone := fmt.Sprintf("gone-%d", round)
		mustSave(t, store, checkpoint.Key{Stream: gone, Shard: "a"}, State(1))
		if n, err := store.Delete(t.Context(), gone); err != nil || n != 1 {
			t.Fatalf("Delete returns %d, %v", n, err)
		}
		store = f.Reopen(t)
		for n := range 5 {
			mustHold(t, store, key(n), State(100*round+n))
		}
		mustMiss(t, store, checkpoint.Key{Stream: gone, Shard: "a"})
	}
}

func closed(t *testing.T, f Fixture) {
	mustSave(t, f.Store, key(1), State(1))
	f.Close(t)
	f.Close(t)
	if err := f.Store.Save(t.Context(), key(1), State(2)); err == nil {
		t.Error("Save on a closed store returns nil")
	}
	if _, err := f.Store.Load(t.Context(), key(1)); err == nil || errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Load on a closed store returns %v", err)
	}
	if _, err := f.Store.List(t.Context()); err == nil {
		t.Error("List on a closed store returns nil")
	}
	if _, err := f.Store.Delete(t.Context(), key(1).Stream); err == nil {
		t.Error("Delete on a closed store returns nil")
	}
}
