package shard_test

import (
	"sync/atomic"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/source"
)

// A page of the snapshot takes back in the store that a reconcile is due.
func TestSnapshotTakesAWishBack(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("z", "1", "0")
	_, stop := b.run(t)
	b.expectSaid(t, "Added z=1")
	stop()
	for range 9 {
		b.table.Insert(entityName(int(b.table.Reads())), "1", "0")
	}
	_ = shard.Start{}
	b.opts.BatchRows = 2
	b.set(t, 10)
	var pages atomic.Int32
	var before, after atomic.Bool
	done := make(chan struct{})
	s, stop := b.runHooked(t, func(q source.Query) error {
		if q.Through == 0 || q.Keys != nil {
			return nil
		}
		switch pages.Add(1) {
		case 2:
			b.bus.Lose(topic, 1) // rule 21
			for range 6000 {
				if b.progress(t).ReconcileDue {
					before.Store(true)
					break
				}
				wait(t, 10*time.Millisecond)
			}
		case 3:
			after.Store(b.progress(t).ReconcileDue)
			close(done)
		}
		return nil
	})
	_ = s
	select {
	case <-done:
		if !before.Load() {
			t.Error("no reconcile is due: the test proves nothing")
		} else if !after.Load() {
			t.Error("a kill here forgets the reconcile that rule 21 needs")
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("after %d pages there is no other one", pages.Load())
	}
	stop()
}
