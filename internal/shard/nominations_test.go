package shard_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
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
		b.saved(t, 22)
		b.polls(t, 3)
		stop()
		b.expectSaid(t, "Added a=1", "Modified a=3", "Added c=1")
	})
}

// TestNominationsThatTheirCallerLeaves: what waits for an entity that nobody can publish ends with
// the one who nominated it.
func TestNominationsThatTheirCallerLeaves(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("a", "1", "0")
	b.table.Insert("b", "1", "0")
	s, _ := b.runHooked(t, func(q source.Query) error {
		if q.Keys != nil && q.Limit == 10_000 {
			// Movers cannot read.
			return source.ErrUnfit
		}
		return nil
	})
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

// Two large rows of one key: the page with the key is cut behind the first one.
func TestTwoLargeRowsOfOneKey(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.Limits = shard.NewLimits(48<<10, 1, 4).Stream() // a page takes 1 KiB
	big := func(c string) string { return strings.Repeat(c, 2000) }
	r1 := b.table.Insert("a", big("x"), "0")
	r2 := b.table.Insert("a", big("y"), "0")
	s, _ := b.run(t)
	eventually(t, "both", func() bool { return b.count(topic) == 2 })
	// Row 1 nominates the entity, and meanwhile row 2 has changed.
	b.table.Update(r2, "a", big("z"), "0")
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: r1, Last: r1}}})
	wait(t, 100*time.Millisecond)
	if all := b.said(t); !strings.HasPrefix(all[len(all)-1].text, "Modified a=zzz") {
		t.Errorf("the bus ends with %.20q", all[len(all)-1].text)
	}
}
