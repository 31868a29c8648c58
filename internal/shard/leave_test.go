package shard_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"bridge/reconcile"
	"bridge/source"
)

// TestNominationsThatTheirCallerLeaves: what waits for an entity that nobody can publish ends with
// the one who nominated it.
func TestNominationsThatTheirCallerLeaves(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("a", "1", "0")
	b.table.Insert("b", "1", "0")
	s, stop := b.runHooked(t, func(q source.Query) error {
		if q.Keys != nil && q.Limit == 10_000 {
			// Movers cannot read.
			return source.ErrUnfit
		}
		return nil
	})
	defer stop()
	b.expectSaid(t, "Added a=1", "Added b=1")
	b.table.Delete(1)
	nominate := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.Nominate(ctx, reconcile.Nomination{Entities: [][]byte{[]byte("a")}}); err == nil {
			t.Error("the entity was published")
		}
	}
	nominate()
	before := runtime.NumGoroutine()
	const times = 40
	for range times {
		nominate()
	}
	eventually(t, "nobody waits any more", func() bool { return runtime.NumGoroutine() < before+times/2 })
}
