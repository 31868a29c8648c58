package checkpointtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"bridge/checkpoint"
)

// RandomChanges makes changes of a view of some hundred entities, several of some of them.
func RandomChanges(r *rand.Rand, count int) []checkpoint.Change {
	var changes []checkpoint.Change
	for range count {
		k := checkpoint.Known{}
		if fate := checkpoint.Fate(r.IntN(6)); fate != checkpoint.Unknown {
			// Mostly live.
			if fate > checkpoint.Gone {
				fate = checkpoint.Live
			}
			k = Known(fate, uint64(1+r.IntN(2000)), r.IntN(1000))
		}
		changes = append(changes, change(fmt.Sprint("entity-", r.IntN(700)), k))
	}
	return changes
}

func randomView(t *testing.T, f Fixture) {
	r := rand.New(rand.NewPCG(1, 2))
	want := [2]model{{}, {}}
	for round := range 40 {
		shard := r.IntN(2)
		changes := RandomChanges(r, r.IntN(60))
		mustSave(t, f.Store, key(shard), checkpoint.State{View: changes})
		want[shard].apply(changes)
		if round%10 == 9 && f.Reopen != nil {
			f.Store = f.Reopen(t)
		}
		mustKnow(t, f.Store, key(0), want[0], "entity-0", "entity-1")
		mustKnow(t, f.Store, key(1), want[1])
	}
}

// wholeSaves: every save moves all entities to one state and one row.
func wholeSaves(t *testing.T, f Fixture) {
	const entities, saves = 50, 30
	save := func(n int) {
		var changes []checkpoint.Change
		for e := range entities {
			changes = append(changes, change(fmt.Sprint(e), Known(checkpoint.Live, uint64(n), n)))
		}
		mustSave(t, f.Store, key(1), checkpoint.State{View: changes})
	}
	save(1)
	names := make([][]byte, entities)
	for e := range names {
		names[e] = fmt.Append(nil, e)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-done:
					return
				default:
				}
				known, err := f.Store.Lookup(t.Context(), key(1), names, nil)
				if err != nil || known[0].Row < last {
					t.Errorf("Lookup returns row %d after row %d, %v", known[0].Row, last, err)
					return
				}
				last = known[0].Row
				rows, err := f.Store.ByRow(t.Context(), key(1), 0, entities, nil)
				if err != nil || len(rows) != entities || rows[0].Row < last {
					t.Errorf("ByRow returns %d entities, %v, want all", len(rows), err)
					return
				}
				for e := range entities {
					if known[e] != known[0] || rows[e].State != rows[0].State {
						t.Errorf("a reader sees a part of a save")
						return
					}
				}
			}
		})
	}
	for n := 2; n < saves; n++ {
		save(n)
	}
	close(done)
	wg.Wait()
}

func forget(t *testing.T, f Fixture) {
	want, changes := model{}, []checkpoint.Change(nil)
	for n := range 100 {
		changes = append(changes, change(fmt.Sprintf("%02d", n), Known(checkpoint.Live+checkpoint.Fate(n%3), uint64(n+1), n)))
	}
	want.apply(changes)
	mustSave(t, f.Store, key(1), checkpoint.State{View: changes})
	before := Known(checkpoint.Gone, 0, 50).Since
	slices := 0
	for from := []byte(nil); ; {
		next, err := f.Store.Forget(t.Context(), key(1), before, from, 7)
		if err != nil {
			t.Fatal(err)
		}
		slices++
		if next == nil {
			break
		}
		if string(next) <= string(from) || slices > 100 {
			t.Fatalf("Forget from %q goes on at %q", from, next)
		}
		from = next
	}
	for entity, k := range want {
		if k.Fate == checkpoint.Gone && k.Since.Before(before) {
			delete(want, entity)
		}
	}
	mustKnow(t, f.Store, key(1), want, "00", "01", "02", "05")
	if next, err := f.Store.Forget(t.Context(), key(2), time.Now(), nil, 7); err != nil || next != nil {
		t.Errorf("Forget of a shard without a view returns %q, %v", next, err)
	}
}

func rewind(t *testing.T, f Fixture) {
	if err := f.Store.Rewind(t.Context(), key(1), 5); err != nil {
		t.Fatalf("Rewind of an unknown shard: %v", err)
	}
	want, state := model{}, State(1)
	for n := range 300 {
		state.View = append(state.View, change(fmt.Sprint(n), Known(checkpoint.Live+checkpoint.Fate(n%3), uint64(n*7%300+1), n)))
	}
	want.apply(state.View)
	state.Given = ranges(1, 3, 90, 120, 200, 210)
	state.Journals = []*checkpoint.Journal{Journal(1), Journal(2)}
	mustSave(t, f.Store, key(1), state)
	mustSave(t, f.Store, key(2), state)
	if err := f.Store.Rewind(t.Context(), key(1), 100); err != nil {
		t.Fatal(err)
	}
	mustKnow(t, f.Store, key(2), want)
	for entity, k := range want {
		if k.Row > 100 {
			delete(want, entity)
		}
	}
	mustKnow(t, f.Store, key(1), want, "1", "2", "3", "299")
	mustGiveUp(t, f.Store, ranges(1, 3, 90, 100))
	mustHold(t, f.Store, key(1), State(1))
	for _, id := range []uint64{1<<64 - 1, 0} {
		if err := f.Store.Rewind(t.Context(), key(1), id); err != nil {
			t.Fatal(err)
		}
	}
	mustKnow(t, f.Store, key(1), model{}, "0", "1", "2", "43")
	mustGiveUp(t, f.Store, nil)
}
