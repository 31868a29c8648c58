package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

func TestRunThatIsCutShortGoesOn(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cut after the save: %v", kind, after), func(t *testing.T) {
				for at := 1; cutAt(t, kind, at, after); at++ {
					if at > 1000 {
						t.Fatal("no run ends")
					}
				}
			})
		}
	}
}

// cutAt cuts a run at the given save and finishes it, and reports whether there was such a save.
func cutAt(t *testing.T, kind event.Kind, at int, after bool) bool {
	t.Helper()
	w := newWorld(t, kind)
	w.fill("a", 60)
	change(w)
	saves := 0
	whole := w.options
	w.options.Committer = cut{w.store, &saves, at, after}
	first, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
	if err == nil {
		return false
	}
	if !errors.Is(err, store.ErrClosed) {
		t.Fatalf("cut at save %d: %v", at, err)
	}
	w.options = whole
	second := w.run(reconcile.Mode{})
	begun := at > 1 || after
	if ended := after && !second.Resumed; second.Resumed != begun && !ended {
		t.Errorf("cut at save %d: resumed %v", at, second.Resumed)
	}
	if second.Guard != "" {
		t.Errorf("cut at save %d: %s", at, second.Guard)
	}
	if begun && second.Resumed && second.Rows != first.Rows && kind == event.Capability && second.Rows != 54 {
		t.Errorf("cut at save %d: %d rows scanned", at, second.Rows)
	}
	if kind == event.Capability {
		w.compare()
		if got := w.deletes(); got != 7 {
			t.Errorf("cut at save %d: %d deletes", at, got)
		}
	} else if last := w.run(reconcile.Mode{}); last.Missed != 0 || len(w.bus) != 62 {
		t.Errorf("cut at save %d: %d rows were still missed", at, last.Missed)
	}
	if run := w.recorded(); run.Ended.IsZero() || run.Waiting != 0 {
		t.Errorf("cut at save %d: on record %+v", at, run)
	}
	for part, err := range w.store.Parts(t.Context(), key, store.AbsentEntities, 0) {
		t.Errorf("cut at save %d: still waiting: %s, %v", at, part.Bytes, err)
	}
	return true
}

// change makes some of everything: 7 rows go, one of which another replaces.
func change(w *world) {
	for id := uint64(5); id <= 60; id += 8 {
		w.touch(fmt.Sprintf("a%d", id))
		w.table.Delete(id)
		w.table.Update(id+1, fmt.Sprintf("a%d", id+1), "2")
	}
	if w.release {
		// What is gone was published, but for 5 and what came under 13.
		w.age(60, 0, 21, 29, 37, 45, 53)
		w.table.InsertAt(5, "late", "1", "0")
	}
	w.table.InsertAt(13, "new", "1", "0")
}

func TestRunWaitsForWhatIsAway(t *testing.T) {
	t.Run("a source that fails for a while", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.play("fill a 30; update 5 a5 2")
		w.table.Fail(2, errors.New("away"))
		w.play("want scanned=30 modified=1")
	})
	t.Run("but not for a table that is missing", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.atRead(3, func() { w.table.Fail(-1, source.ErrMissing) })
		reconciler := reconcile.New(w.options)
		if _, err := reconciler.Run(t.Context(), reconcile.Mode{}); !errors.Is(err, source.ErrMissing) {
			t.Errorf("error %v", err)
		}
		if s := reconciler.Status(); s.LastError == "" || s.Totals.Failed != 1 || s.Running {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("nor for a shard that does not run", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.stopped = true
		if _, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{}); !errors.Is(err, reconcile.ErrNotRunning) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRunThatIsCutShortRemembersThatTheGuardTripped(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 60)
	w.record(reconcile.Run{Guard: "tripped"})
	if w.play("cut 4"); w.recorded().Guard == "" {
		t.Errorf("on record %+v", w.recorded())
	}
}

func TestARunDropsWhatIsLeftOfAnotherOne(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	// As of a run that a command has removed.
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{{Kind: store.AbsentEntities, Number: 2, Bytes: []byte(`["YTE="]`)}}}}})
	w.run(reconcile.Mode{})
	for part, err := range w.store.Parts(t.Context(), key, store.AbsentEntities, 0) {
		t.Errorf("still waiting: %s, %v", part.Bytes, err)
	}
}

func TestARunThatCannotBeReadIsDamage(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{{Kind: store.Reconcile, Bytes: []byte("{")}}}}})
	if _, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("error %v", err)
	}
	w.record(reconcile.Run{Started: time.Now(), Bound: 10, After: 10, Waiting: 3, Server: "memory"})
	if _, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("without the entities that wait: error %v", err)
	}
}

func TestNoDemandOfAReleaseStreamIsAnsweredWhereAnotherServerMayLackRows(t *testing.T) {
	w := newWorld(t, event.Release)
	w.fill("a", 10)
	w.table.Skip(20)
	w.fill("b", 2)
	w.age(32, 0)
	w.options.Source = hooked{Shard: w.table, readIDs: func(_ *source.IDs, read func() error) error { w.play("server other"); return read() }}
	w.play("demand 1; want unjudged unverified; answered")
}

// TestADemandBeginsARunOnRecordAgain: what was compared before the demand counts for nothing, but
// the agreement to deletes does.
func TestADemandBeginsARunOnRecordAgain(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 30)
	w.play("gone a 1-20; delete 1-20")
	w.record(reconcile.Run{Started: time.Now().Add(-time.Minute), Bound: 30, After: 25, Waiting: 2, Server: "memory", Allowed: true})
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{{Kind: store.AbsentEntities, Bytes: []byte(`["YTI5","YTMw"]`)}}}}})
	w.play("demand 7; want scanned=10 deleted=20 gone=20; answered 7; compare")
}

func TestSchedulerRunsAtOnceWhatIsDemanded(t *testing.T) {
	recent := func() reconcile.Run {
		return reconcile.Run{Started: time.Now().Add(-2 * time.Minute), Ended: time.Now().Add(-time.Minute)}
	}
	t.Run("and not again where nothing new is demanded", inBubble(func(t *testing.T) {
		p := newPlant(t, recent(), recent())
		p.worlds[1].play("demand 1")
		p.start()
		p.pass(5 * time.Second)
		p.ran(0, 1)
		p.worlds[1].play("demand 2")
		p.pass(5 * time.Second)
		p.stop()
		p.ran(0, 2)
		p.worlds[1].play("answered 1 2")
	}))
	t.Run("and at its usual time where the demand stays", inBubble(func(t *testing.T) {
		p := newPlant(t, recent())
		p.worlds[0].options.Owner = deaf{p.worlds[0]}
		p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
		p.worlds[0].play("demand 1")
		p.start()
		p.pass(10 * time.Minute)
		p.stop()
		p.ran(1)
	}))
	t.Run("and soon again where it was cut short", inBubble(func(t *testing.T) {
		p := newPlant(t, recent())
		w := p.worlds[0]
		w.play("demand 1")
		w.table.Fail(1, fmt.Errorf("away: %w", source.ErrMissing))
		p.start()
		p.pass(2 * time.Second)
		if s := p.shards[0].Status(); s.Totals.Failed != 1 {
			t.Errorf("status %+v", s)
		}
		p.pass(time.Minute)
		p.stop()
		if s := p.shards[0].Status(); s.Totals.Failed != 1 || s.Totals.Ended != 1 {
			t.Errorf("status %+v", s)
		}
		w.play("answered 1")
	}))
}

// deaf is an owner whose demand stays.
type deaf struct{ *world }

func (deaf) ReconcileDue() (uint64, bool) { return 1, true }
