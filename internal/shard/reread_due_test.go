package shard_test

import (
	"fmt"
	"testing"
	"time"

	"bridge/reconcile"
	"bridge/source"
	"bridge/tests/testall"
)

// TestTheReconcileBehindALostTail (rule 21): the bus loses one message of a shard that runs, and
// the reconcile that is due publishes that one and none that the bus has.
func TestTheReconcileBehindALostTail(t *testing.T) {
	b := newViewBench(t, false)
	b.tick = 10 * time.Millisecond
	entities := testall.Pick(6000, 30_000)
	for i := range entities {
		b.table.Insert(fmt.Sprintf("e%d", i), "1", "0")
	}
	s, stop := b.run(t)
	defer stop()
	eventually(t, "all are published", func() bool { return b.count(topic) == entities && b.position(t) == uint64(entities) })
	// That which is due behind a start without a store is another one.
	eventually(t, "no reconcile is due", func() bool {
		wish, due := s.ReconcileDue()
		if due {
			if err := s.Reconciled(t.Context(), wish); err != nil {
				t.Fatal(err)
			}
		}
		return !due
	})
	b.bus.Lose(topic, 1)
	eventually(t, "a reconcile is due", func() bool { _, due := s.ReconcileDue(); return due })
	for from := uint64(1); from <= uint64(entities); from += reconcile.MaxNominated {
		n := reconcile.Nomination{Rows: []source.Range{{First: from, Last: min(from+reconcile.MaxNominated-1, uint64(entities))}}}
		if _, err := s.Nominate(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(topic); n != entities {
		t.Errorf("the bus has %d messages of %d entities", n, entities)
	}
}
