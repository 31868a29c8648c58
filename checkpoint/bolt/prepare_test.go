package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
	"bridge/checkpoint/memory"
	"bridge/source"
)

// gate holds preparations until it is opened.
type gate struct {
	reached chan struct{}
	opened  chan struct{}
	once    *sync.Once
}

func (g gate) open() { g.once.Do(func() { close(g.opened) }) }

// holdPreparations makes the preparations of s wait at the n-th of their transactions.
func holdPreparations(s *bolt.Store, n int32) gate {
	g := gate{make(chan struct{}, 1), make(chan struct{}), new(sync.Once)}
	var count atomic.Int32
	s.OnPreparation(func() error {
		if count.Add(1) < n {
			return nil
		}
		select {
		case g.reached <- struct{}{}:
		default:
		}
		<-g.opened
		return nil
	})
	return g
}

// twin is a store with the model that it has to equal.
type twin struct {
	*bolt.Store
	model *memory.Store
	saves int
}

// save saves the next states in both.
func (w *twin) save(t *testing.T, count int) {
	t.Helper()
	for range count {
		for _, s := range []checkpoint.Store{w.Store, w.model} {
			if err := s.Save(t.Context(), key, viewState(w.saves)); err != nil {
				t.Fatal(err)
			}
		}
		w.saves++
	}
}

// mustEqual fails the test unless both say the same.
func (w *twin) mustEqual(t *testing.T) {
	t.Helper()
	var entities [][]byte
	for n := range 700 {
		entities = append(entities, fmt.Append(nil, "entity-", n))
	}
	type told struct {
		known []checkpoint.Known
		rows  []checkpoint.Entity
		given []source.Range
	}
	var both [2]told
	for i, s := range []checkpoint.Store{w.Store, w.model} {
		var errs [3]error
		both[i].known, errs[0] = s.Lookup(t.Context(), key, entities, nil)
		for after, more := uint64(0), true; more; {
			before := len(both[i].rows)
			both[i].rows, errs[1] = s.ByRow(t.Context(), key, after, 33, both[i].rows)
			if more = len(both[i].rows) > before; more {
				after = both[i].rows[len(both[i].rows)-1].Row
			}
		}
		both[i].given, errs[2] = s.GivenUp(t.Context(), key, 0, 1<<30, nil)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
	}
	sameRow := func(a, b checkpoint.Entity) bool {
		return a.Row == b.Row && a.Fate == b.Fate && a.State == b.State && bytes.Equal(a.Entity, b.Entity)
	}
	switch {
	case !slices.Equal(both[0].known, both[1].known):
		t.Fatal("the view is not what the model says")
	case !slices.EqualFunc(both[0].rows, both[1].rows, sameRow):
		t.Fatalf("by row there are %d entities, want %d, or others", len(both[0].rows), len(both[1].rows))
	case !slices.Equal(both[0].given, both[1].given):
		t.Fatal("the ids given up are not what the model says")
	}
}

// forgetAll forgets all that is gone, in both.
func (w *twin) forgetAll(t *testing.T) {
	t.Helper()
	for _, s := range []checkpoint.Store{w.Store, w.model} {
		for from, more := []byte(nil), true; more; more = from != nil {
			var err error
			if from, err = s.Forget(t.Context(), key, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), from, 50); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// foldToTheEnd folds all and fails the test unless both are equal still, and the trees agree.
func (w *twin) foldToTheEnd(t *testing.T) {
	t.Helper()
	if ended, err := w.FoldSteps(key, 1<<20); err != nil || !ended {
		t.Fatalf("folding to the end: %v, %v", ended, err)
	}
	w.mustEqual(t)
	mustAgree(t, w.Store)
}

// TestWhatIsDoneWhileAFoldIsPrepared: whatever is called, at whatever moment of a preparation, the view is what the model says.
func TestWhatIsDoneWhileAFoldIsPrepared(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(*testing.T, *twin)
		waits bool
	}{
		"saves":   {do: func(t *testing.T, w *twin) { w.save(t, 4) }},
		"forgets": {do: func(t *testing.T, w *twin) { w.forgetAll(t); w.save(t, 2) }},
		"a delete of another stream": {do: func(t *testing.T, w *twin) {
			if _, err := w.Delete(t.Context(), "another"); err != nil {
				t.Error(err)
			}
		}},
		"a rewind": {waits: true, do: func(t *testing.T, w *twin) {
			for _, s := range []checkpoint.Store{w.Store, w.model} {
				if err := s.Rewind(t.Context(), key, 800); err != nil {
					t.Error(err)
				}
			}
		}},
		"a delete": {waits: true, do: func(t *testing.T, w *twin) {
			for _, s := range []checkpoint.Store{w.Store, w.model} {
				if _, err := s.Delete(t.Context(), key.Stream); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// The file has trees and, from the second round on, outdated changes of before it was opened.
			path := filepath.Join(t.TempDir(), "bridge.db")
			w := &twin{model: memory.New()}
			for at := int32(1); at <= 30; at += 7 {
				s, err := bolt.OpenFolding(path, 300, 40)
				if err != nil {
					t.Fatal(err)
				}
				w.Store = s
				g := holdPreparations(s, at)
				defer g.open()
				for held := false; !held; {
					w.save(t, 1)
					select {
					case <-g.reached:
						held = true
					default:
						_, held = s.Recent()
					}
				}
				w.mustEqual(t)
				if !test.waits {
					test.do(t, w)
					w.mustEqual(t)
					g.open()
				} else {
					var done sync.WaitGroup
					var ended atomic.Bool
					done.Go(func() { test.do(t, w); ended.Store(true) })
					// A preparation that is cancelled before it is held does not wait.
					waitFor(t, func() bool { return s.Busy() || ended.Load() })
					g.open()
					done.Wait()
				}
				w.mustEqual(t)
				w.save(t, 3)
				w.mustEqual(t)
				if at%2 == 0 {
					w.foldToTheEnd(t)
				}
				w.save(t, 1)
				mustClose(t, s)
			}
			w.Store = mustOpen(t, path)
			w.mustEqual(t)
			w.foldToTheEnd(t)
		})
	}
}

// TestCloseEndsAPreparation: Close waits for the transaction that is open, and what was saved is there afterwards.
func TestCloseEndsAPreparation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	w := &twin{model: memory.New()}
	for at := int32(1); at < 40; at += 4 {
		s, err := bolt.OpenFolding(path, 100, 40)
		if err != nil {
			t.Fatal(err)
		}
		w.Store = s
		w.save(t, 2)
		g := holdPreparations(s, at)
		defer g.open()
		w.save(t, 2)
		var done sync.WaitGroup
		done.Go(func() { mustClose(t, s) })
		g.open()
		done.Wait()
		if err := s.Save(t.Context(), key, viewState(0)); err == nil {
			t.Fatal("Save after Close returns nil")
		}
		w.Store = mustOpen(t, path)
		w.mustEqual(t)
		mustClose(t, w.Store)
	}
}

// TestSavesWaitForAPreparationBeyondTwiceTheBound: a preparation that takes long does not let grow what is recent.
func TestSavesWaitForAPreparationBeyondTwiceTheBound(t *testing.T) {
	const bound, batch, batches = 100, 15, 100
	s, err := bolt.OpenFolding(filepath.Join(t.TempDir(), "bridge.db"), bound, 40)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	g := holdPreparations(s, 3)
	defer g.open()
	var saved atomic.Int32
	var done sync.WaitGroup
	done.Go(func() {
		n := 0
		for i := range batches {
			changes := benchChanges(batch, uint64(i*batch+1), func() int { n++; return n })
			if err := s.Save(t.Context(), key, checkpoint.State{View: changes}); err != nil {
				t.Error(err)
				return
			}
			saved.Add(batch)
		}
	})
	// The save that crosses the line makes others wait, and itself.
	waitFor(t, func() bool { return saved.Load() > 2*bound-batch && s.Busy() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Save(ctx, checkpoint.Key{Stream: "orders", Shard: "other"}, viewState(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a save beyond twice the bound returns %v while a fold is prepared", err)
	}
	if n := saved.Load(); n > 2*bound {
		t.Errorf("%d entities were saved while a fold was prepared, the bound is %d", n, bound)
	}
	g.open()
	done.Wait()
	if n := saved.Load(); n != batch*batches {
		t.Errorf("%d entities were saved, want %d", n, batch*batches)
	}
}

// TestAPreparationThatFails: saves meet its error and change nothing, and go on when it is gone.
func TestAPreparationThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s, err := bolt.OpenFolding(path, 100, 40)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	w := &twin{Store: s, model: memory.New()}
	fault := errors.New("input/output error")
	var failing atomic.Bool
	var calls atomic.Int32
	s.OnPreparation(func() error {
		if failing.Load() && calls.Add(1)%3 == 0 {
			return fault
		}
		return nil
	})
	for range 5 {
		failing.Store(true)
		for failed := 0; failed < 3; {
			// Beyond twice the bound at the latest.
			switch err := s.Save(t.Context(), key, viewState(w.saves)); {
			case err == nil && failed > 0:
				t.Fatal("a save goes on although folding fails")
			case err == nil:
				if err := w.model.Save(t.Context(), key, viewState(w.saves)); err != nil {
					t.Fatal(err)
				}
				w.saves++
			case !errors.Is(err, fault):
				t.Fatalf("Save returns %v, want %v", err, fault)
			default:
				failed++
			}
			w.mustEqual(t)
		}
		if err := s.Rewind(t.Context(), key, 1<<63); !errors.Is(err, fault) {
			t.Fatalf("Rewind returns %v, want %v", err, fault)
		}
		failing.Store(false)
		// What Rewind did before it failed.
		if err := errors.Join(s.Rewind(t.Context(), key, 1500), w.model.Rewind(t.Context(), key, 1500)); err != nil {
			t.Fatal(err)
		}
		w.save(t, 30)
		w.mustEqual(t)
	}
	w.foldToTheEnd(t)
}

// TestAFileCutOffWhileAFoldIsPrepared: it is a fault, not a crash, and who waits is told.
func TestAFileCutOffWhileAFoldIsPrepared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s, err := bolt.OpenFolding(path, 100, 40)
	if err != nil {
		t.Fatal(err)
	}
	g := holdPreparations(s, 2)
	defer g.open()
	for n, held := 0, false; !held; n++ {
		if err := s.Save(t.Context(), key, viewState(n)); err != nil {
			t.Fatal(err)
		}
		_, held = s.Recent()
	}
	<-g.reached
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	g.open()
	// It waits for the preparation and reads nothing itself.
	if _, err := s.FoldSteps(key, 1); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("a step of the fold returns %v, want ErrCorrupt", err)
	}
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Save returns %v, want ErrCorrupt", err)
	}
	if err := s.Close(); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Close returns %v, want ErrCorrupt", err)
	}
}

// saveViewsPreparing is saveViewsForEver until a preparation, in which it kills its process.
func saveViewsPreparing(path string) error {
	s, err := openForViews(path)
	if err != nil {
		return err
	}
	left := atomic.Int32{}
	left.Store(1 + rand.Int32N(30))
	s.OnPreparation(func() error {
		if left.Add(-1) > 0 {
			return nil
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
	return saveAllForEver(s, viewState)
}

// TestKillWhileAFoldIsPrepared kills a process in the middle of a preparation.
func TestKillWhileAFoldIsPrepared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	acked := [crashShards]int{-1, -1, -1, -1}
	preparing := 0
	for round := range 8 {
		saveAndKill(t, "preparing", path, 1<<30, &acked)
		s, err := openForViews(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if entities, _ := s.Recent(); entities > 150 {
			preparing++
		}
		for shard, last := range acked {
			n := mustHoldAcknowledged(t, s, round, shard, last)
			if ended, err := s.FoldSteps(crashKey(shard), 1<<20); err != nil || !ended {
				t.Fatalf("round %d: folding to the end: %v, %v", round, ended, err)
			}
			if n >= 0 {
				mustHoldWithView(t, s, shard, n)
			}
			acked[shard] = n
		}
		mustAgree(t, s)
		mustClose(t, s)
	}
	if preparing == 0 {
		t.Error("no kill came while a fold was prepared, the test shows nothing")
	}
}

func TestWhatHasBeenRecentForLongIsFolded(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, c := range map[string]struct {
		// entities are saved first, at once, and then one at a time.
		entities, bytes int
		age, pace       time.Duration
		folds           bool
	}{
		"enough of it":            {100, 20 << 10, short, time.Hour, true},
		"a little":                {100, 1 << 30, short, time.Hour, false},
		"not for long":            {100, 1, 32 * time.Second, time.Hour, false},
		"more than the saves pay": {3000, 20 << 10, short, time.Millisecond, true},
		"more, at no pace":        {3000, 20 << 10, short, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := bolt.OpenAgeing(filepath.Join(t.TempDir(), "bridge.db"), c.bytes, c.age, c.pace)
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, s)
			n := 0
			save := func(count int) {
				t.Helper()
				changes := benchChanges(count, uint64(n+1), func() int { n++; return n })
				if err := s.Save(t.Context(), key, checkpoint.State{View: changes}); err != nil {
					t.Fatal(err)
				}
			}
			save(c.entities)
			// It is looked sixteen times in an age.
			<-time.After(2*short + c.age/16)
			folded := false
			for i := 0; i < 200 && !folded; i++ {
				save(1)
				recent, folding := s.Recent()
				folded = recent < c.entities && !folding
				<-time.After(time.Millisecond)
			}
			if folded != c.folds {
				t.Fatalf("folded: %v", folded)
			}
			if folded {
				mustAgree(t, s)
			}
		})
	}
}
