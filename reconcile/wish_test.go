package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// wishes has the owner wish for a run.
func (w *world) wishes(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wish = number
}

func (w *world) answers(t *testing.T, want ...uint64) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.answered, want) {
		t.Errorf("the wishes %v were answered, want %v", w.answered, want)
	}
}

func TestARunAnswersTheWishThatItBeganWith(t *testing.T) {
	t.Run("once the whole table is compared", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.run(reconcile.Mode{})
		w.answers(t)
		w.wishes(4)
		w.run(reconcile.Mode{DryRun: true})
		w.answers(t)
		w.run(reconcile.Mode{})
		w.answers(t, 4)
	})
	t.Run("not one that came later", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.atRead(3, func() { w.wishes(5) })
		w.run(reconcile.Mode{})
		w.answers(t)
	})
	t.Run("also where the guard trips", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.table.Truncate()
		w.wishes(1)
		if report := w.run(reconcile.Mode{}); report.Guard == "" {
			t.Errorf("report %+v", report)
		}
		w.answers(t, 1)
	})
	t.Run("not of a release stream where another server may lack rows", func(t *testing.T) {
		w := newWorld(t, event.Release)
		w.fill("a", 10)
		w.table.Skip(20)
		w.fill("b", 2)
		w.age(32, 0)
		w.wishes(1)
		w.options.Source = hooked{Shard: w.table, readIDs: func(_ *source.IDs, read func() error) error { w.table.Move("other", false); return read() }}
		if report := w.run(reconcile.Mode{}); report.Unjudged == "" {
			t.Errorf("report %+v", report)
		}
		w.answers(t)
	})
}

// TestAWishBeginsARunOnRecordAgain: what was compared before the wish counts for nothing, but the
// agreement to deletes does.
func TestAWishBeginsARunOnRecordAgain(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 30)
	w.play("gone a 1-20; delete 1-20")
	w.record(reconcile.Run{Started: time.Now().Add(-time.Minute), Bound: 30, After: 25, Absent: 2, Server: "memory", Allowed: true})
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{{Kind: store.AbsentEntities, Bytes: []byte(`["YTI5","YTMw"]`)}}}}})
	w.wishes(7)
	report := w.run(reconcile.Mode{})
	if report.Resumed || report.Scanned != 10 || report.Deleted != 20 || report.Gone != 20 {
		t.Errorf("report %+v", report)
	}
	w.answers(t, 7)
	w.compare()
}

func TestSchedulerRunsAtOnceWhatIsWished(t *testing.T) {
	recent := func() reconcile.Run {
		return reconcile.Run{Started: time.Now().Add(-2 * time.Minute), Ended: time.Now().Add(-time.Minute)}
	}
	t.Run("and not again where nothing new is wished", inBubble(func(t *testing.T) {
		p := newPlant(t, recent(), recent())
		p.worlds[1].wishes(1)
		p.start()
		p.pass(5 * time.Second)
		if len(p.begun[0]) != 0 || len(p.begun[1]) != 1 {
			t.Errorf("ran: %v", p.begun)
		}
		p.worlds[1].wishes(2)
		p.pass(5 * time.Second)
		p.stop()
		if len(p.begun[0]) != 0 || len(p.begun[1]) != 2 {
			t.Errorf("ran: %v", p.begun)
		}
		p.worlds[1].answers(t, 1, 2)
	}))
	t.Run("and at its usual time where the wish stays", inBubble(func(t *testing.T) {
		p := newPlant(t, recent())
		p.worlds[0].options.Owner = deaf{p.worlds[0]}
		p.shards[0].Reconciler = reconcile.New(p.worlds[0].options)
		p.worlds[0].wishes(1)
		p.start()
		p.pass(10 * time.Minute)
		p.stop()
		if len(p.begun[0]) != 1 {
			t.Errorf("ran: %v", p.begun)
		}
	}))
	t.Run("and soon again where it was cut short", inBubble(func(t *testing.T) {
		p := newPlant(t, recent())
		w := p.worlds[0]
		w.wishes(1)
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
		w.answers(t, 1)
	}))
}

// deaf is an owner whose wish stays.
type deaf struct{ *world }

func (deaf) ReconcileDue() (uint64, bool) { return 1, true }
