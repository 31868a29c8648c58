package shard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
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

const stamp = "2006-01-02 15:04:05.000000"

// newViewBench is a bench with a capability shard: name identifies, value is the state, deleted is
// the tombstone column, modified says when.
func newViewBench(t *testing.T, modified bool) *bench {
	b := newBench(t)
	spec := source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Deleted: "deleted"}
	if modified {
		spec.Modified = "modified"
	}
	b.table = sourcememory.NewTable(spec,
		source.Column{Name: "id", Kind: source.Int},
		source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "value", Kind: source.Text},
		source.Column{Name: "deleted", Kind: source.Int},
		source.Column{Name: "modified", Kind: source.DateTime, Precision: 6})
	b.opts.Kind = event.Capability
	return b
}

func now() string { return time.Now().UTC().Format(stamp) }

// say is what an event says, in short: "Added a=1" or "Deleted a".
type said struct {
	text, id, predecessor, reason string
	row                           uint64
	origin                        sink.Origin
}

// said returns what the events on the bus say, in order.
func (b *bench) said(t testing.TB) []said {
	t.Helper()
	return b.saidOn(t, topic)
}

// saidOn is said of one topic.
func (b *bench) saidOn(t testing.TB, topic string) []said {
	t.Helper()
	var all []said
	for _, m := range b.bus.Messages(topic) {
		var e struct {
			Meta  struct{ ID, Type string }
			Data  struct{ Name, Value, Reason string }
			Links []struct{ Type, Target string }
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			t.Fatalf("%v: %s", err, m.Value)
		}
		one := said{id: e.Meta.ID, reason: e.Data.Reason, row: m.RowID, origin: m.Origin}
		one.text = strings.TrimSuffix(strings.TrimPrefix(e.Meta.Type, "Items"), "Event") + " " + e.Data.Name
		if e.Data.Value != "" {
			one.text += "=" + e.Data.Value
		}
		for _, link := range e.Links {
			one.predecessor = link.Target
		}
		all = append(all, one)
	}
	return all
}

func texts(all []said) []string {
	var list []string
	for _, one := range all {
		list = append(list, one.text)
	}
	return list
}

// expectSaid waits until the bus says want, and fails where it says something else.
func (b *bench) expectSaid(t testing.TB, want ...string) []said {
	t.Helper()
	eventually(t, fmt.Sprintf("%d events, there are %v", len(want), texts(b.said(t))), func() bool { return b.count(topic) >= len(want) })
	all := b.said(t)
	if got := texts(all); !slices.Equal(got, want) {
		t.Fatalf("the bus says %v, want %v", got, want)
	}
	return all
}

// entity returns the key of an entity.
func entity(name string) []byte { return []byte(name) }

func nominate(t testing.TB, s *shard.Shard, n reconcile.Nomination) reconcile.Verdict {
	t.Helper()
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := s.Nominate(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNominations(t *testing.T) {
	t.Run("what is gone is deleted, what is there is not", func(t *testing.T) {
		b := newViewBench(t, false)
		gone := b.table.Insert("a", "1", "0")
		b.table.Insert("b", "1", "0")
		dead := b.table.Insert("c", "1", "0")
		s, _ := b.run(t)
		b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1")
		b.table.Update(dead, "c", "1", "1")
		if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: dead, Last: dead}}}); v != (reconcile.Verdict{Deleted: 1}) {
			t.Errorf("verdict %+v", v)
		}
		b.table.Delete(gone)
		b.table.Delete(dead)
		names := reconcile.Nomination{Entities: [][]byte{entity("a"), entity("b"), entity("c"), entity("never was")}}
		if v := nominate(t, s, names); v != (reconcile.Verdict{Deleted: 1}) {
			t.Errorf("verdict %+v", v)
		}
		all := b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Deleted c", "Deleted a")
		if last := all[4]; last.reason != "ABSENT_IN_SNAPSHOT" || last.predecessor != all[0].id || last.row != gone || last.origin != sink.FromReconcile {
			t.Errorf("the last event is %+v", last)
		}
		if v := nominate(t, s, names); v != (reconcile.Verdict{}) {
			t.Errorf("a second verdict is %+v", v)
		}
		b.table.InsertAt(gone, "a", "1", "0")
		if v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: gone, Last: gone}}}); v != (reconcile.Verdict{Added: 1}) {
			t.Errorf("verdict %+v", v)
		}
		all = b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Deleted c", "Deleted a", "Added a=1")
		if all[5].id == all[0].id || all[5].predecessor != all[4].id {
			t.Errorf("the entity that came back is told by %+v", all[5])
		}
	})

	instantly(t, "of a release shard only ids that were not published are, once, also after a restart", func(t *testing.T) {
		b := newBench(t)
		b.opts.GapTTL, b.opts.HotFor, b.opts.SweepEvery = time.Nanosecond, time.Millisecond, time.Millisecond
		b.insert(3)
		s, stop := b.run(t)
		b.saved(t, 3)
		b.table.InsertAt(10, "name", "2020-01-01 00:00:00.000000")
		eventually(t, "unpolled", func() bool { return s.Status().Gaps.Unpolled == 6 })
		b.table.InsertAt(7, "name", "2020-01-01 00:00:00.000000")
		named := reconcile.Nomination{Rows: []source.Range{{First: 2, Last: 10}}}
		if v := nominate(t, s, named); v != (reconcile.Verdict{Missed: 1}) {
			t.Errorf("verdict %+v", v)
		}
		for range 2 {
			if v := nominate(t, s, named); v != (reconcile.Verdict{}) {
				t.Errorf("a second nomination: %+v", v)
			}
			stop()
			s, stop = b.run(t)
			eventually(t, "unpolled", func() bool { return s.Status().Gaps.Unpolled == 5 })
		}
		stop()
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 3, 10, 7}) {
			t.Errorf("published %v", got)
		}
	})
}

// TestSnapshot begins at the latest row: what the table holds then is known and not published. The
// last page of it is full, or not.
func TestSnapshot(t *testing.T) {
	for _, rows := range []int{200, 250} {
		b := newViewBench(t, false)
		b.opts.Start = shard.Start{Latest: true}
		for i := range rows {
			b.table.Insert(fmt.Sprint("e", i), "1", "0")
		}
		_, stop := b.run(t)
		eventually(t, "the table as it stands is known", func() bool { return b.position(t) == uint64(rows) && b.snapshotTaken(t) })
		b.table.Replace("e6", "1", "0")
		b.table.Replace("e7", "2", "0")
		if all := b.expectSaid(t, "Modified e7=2"); all[0].predecessor != "" {
			t.Errorf("it follows %q, nothing was published before", all[0].predecessor)
		}
		stop()
	}
}
