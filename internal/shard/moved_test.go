package shard_test

import (
	"sync/atomic"
	"testing"

	"bridge/sink"
	"bridge/source"
)

// TestOriginOfMovedRows has an entity get another row below the one that was published, so that it
// is nominated.
func TestOriginOfMovedRows(t *testing.T) {
	nominated := func(t *testing.T, b *bench, before func(source.Query) error) (stop func()) {
		t.Helper()
		b.table.InsertAt(20, "a", "1", "0")
		_, stop = b.runHooked(t, before)
		b.expectSaid(t, "Added a=1")
		b.table.Delete(20)
		b.table.InsertAt(5, "a", "2", "0")
		return stop
	}
	expect := func(t *testing.T, one said, row uint64, origin sink.Origin) {
		t.Helper()
		if one.row != row || one.origin != origin {
			t.Errorf("%q is row %d from %q, want row %d from %q", one.text, one.row, one.origin, row, origin)
		}
	}

	instantly(t, "one that fills a gap is late", func(t *testing.T) {
		b := newViewBench(t, false)
		stop := nominated(t, b, func(source.Query) error { return nil })
		all := b.expectSaid(t, "Added a=1", "Modified a=2")
		expect(t, all[1], 5, sink.FromLate)
		stop()
	})

	instantly(t, "one that the tail has yet to reach is not late", func(t *testing.T) {
		b := newViewBench(t, false)
		var byKey atomic.Int32
		stop := nominated(t, b, func(q source.Query) error {
			// Movers reads the key first. Before the owner does, the entity gets a new row.
			if len(q.Keys) > 0 && byKey.Add(1) == 2 {
				b.table.Delete(5)
				b.table.InsertAt(21, "c", "1", "0")
				b.table.InsertAt(22, "a", "3", "0")
			}
			return nil
		})
		all := b.expectSaid(t, "Added a=1", "Modified a=3", "Added c=1")
		expect(t, all[1], 22, sink.FromReconcile)
		expect(t, all[2], 21, sink.FromTail)
		eventually(t, "saved", func() bool { return b.position(t) == 22 })
		b.polls(t, 3)
		stop()
		b.expectSaid(t, "Added a=1", "Modified a=3", "Added c=1")
	})
}
