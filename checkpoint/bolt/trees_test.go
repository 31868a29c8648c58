package bolt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
	"bridge/checkpoint/memory"
)

// TestRewindOfAViewWithAnEntityThatIsGone: it has a row and is in no order of rows, which is empty when its turn comes.
func TestRewindOfAViewWithAnEntityThatIsGone(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "bridge.db"))
	state := checkpointtest.State(1)
	state.View = append(state.View, entitiesIn(100, 500, checkpoint.Known{Fate: checkpoint.Live})...)
	state.View = append(state.View, checkpoint.Change{Entity: []byte("last"), Known: checkpoint.Known{Fate: checkpoint.Gone, Row: 7, Since: time.Unix(1, 0).UTC()}})
	if err := errors.Join(s.Save(t.Context(), key, state), s.Rewind(t.Context(), key, 0)); err != nil {
		t.Fatal(err)
	}
	if rows, err := s.ByRow(t.Context(), key, 0, 1000, nil); err != nil || len(rows) > 0 {
		t.Errorf("by row there are %d entities, %v", len(rows), err)
	}
	mustAgree(t, s)
	mustClose(t, s)
}

// TestAFoldThatEmptiesTheOrderOfRows and goes on below all that was there.
func TestAFoldThatEmptiesTheOrderOfRows(t *testing.T) {
	w := &twin{Store: mustOpen(t, filepath.Join(t.TempDir(), "bridge.db")), model: memory.New()}
	gone := entitiesIn(100, 500, checkpoint.Known{Fate: checkpoint.Gone, Since: time.Unix(1, 0).UTC()})
	gone = append(gone, checkpoint.Change{Entity: []byte("late"), Known: checkpoint.Known{Fate: checkpoint.Live, Row: 50}})
	for _, view := range [][]checkpoint.Change{entitiesIn(100, 500, checkpoint.Known{Fate: checkpoint.Live}), gone} {
		for _, s := range []checkpoint.Store{w.Store, w.model} {
			if err := s.Save(t.Context(), key, checkpoint.State{View: view}); err != nil {
				t.Fatal(err)
			}
		}
		w.foldToTheEnd(t)
	}
	mustClose(t, w.Store)
}

// entitiesIn are count entities in the rows from first on.
func entitiesIn(first uint64, count int, known checkpoint.Known) (changes []checkpoint.Change) {
	for n := range count {
		known.Row = first + uint64(n)
		changes = append(changes, checkpoint.Change{Entity: fmt.Appendf(nil, "entity-%d", n), Known: known})
	}
	return changes
}

// TestAViewInTransactionsThatEmptyWholePages has folds and rewinds with the bounds that the program has, on files of this version
// and of the one before.
func TestAViewInTransactionsThatEmptyWholePages(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	path := filepath.Join(t.TempDir(), "bridge.db")
	w := &twin{Store: mustOpen(t, path), model: memory.New()}
	for range 150 {
		switch r.IntN(6) {
		case 0, 1:
			state := checkpoint.State{View: checkpointtest.RandomChanges(r, 1+r.IntN(1500))}
			for _, s := range []checkpoint.Store{w.Store, w.model} {
				if err := s.Save(t.Context(), key, state); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			if _, err := w.FoldSteps(key, r.IntN(12)); err != nil {
				t.Fatal(err)
			}
		case 3:
			mustClose(t, w.Store)
			if r.IntN(3) == 0 {
				editBolt(t, path, bbolt.Options{}, bolt.MakeOld)
			}
			w.Store = mustOpen(t, path)
		case 4:
			w.forgetAll(t)
		default:
			id := []uint64{0, 1900, 1990, r.Uint64N(2000)}[r.IntN(4)]
			for _, s := range []checkpoint.Store{w.Store, w.model} {
				if err := s.Rewind(t.Context(), key, id); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.mustEqual(t)
	}
	w.foldToTheEnd(t)
	mustClose(t, w.Store)
}
