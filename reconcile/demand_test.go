package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

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
