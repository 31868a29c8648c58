package shard_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// A defect that only some rows meet: everything works up to row 150, what touches it panics.
const poisoned = 150

func defect() { panic("a defect") }

// poisonedSink panics at a batch with the poisoned row.
type poisonedSink struct{ sink.Sink }

func (s poisonedSink) Publish(ctx context.Context, messages []sink.Message) (sink.Outcome, error) {
	for i := range messages {
		if messages[i].RowID == poisoned {
			defect()
		}
	}
	return s.Sink.Publish(ctx, messages)
}

// poisonedStore panics where a progress behind the poisoned row is applied.
type poisonedStore struct{ store.Store }

func (s poisonedStore) Apply(ctx context.Context, b *store.Batch) error {
	for i := range b.Shards {
		if p := b.Shards[i].Progress; p != nil && p.Position >= poisoned {
			defect()
		}
	}
	return s.Store.Apply(ctx, b)
}

// poisonedTable panics when the page with the poisoned row is read.
func poisonedTable(q source.Query) error {
	if q.Ranges == nil && q.After < poisoned && q.After+100 >= poisoned {
		defect()
	}
	return nil
}

func TestAPanicEndsItsStreamAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		view   bool
		poison func(*bench)
	}{
		{"when the table of a capability stream is read", true, func(b *bench) { b.hook = poisonedTable }},
		{"when the event is routed", false, func(b *bench) {
			b.opts.Route = func(e *event.Event) string {
				if string(e.Key) == "150" {
					defect()
				}
				return topic
			}
		}},
		{"when the batch of a capability stream is published", true, func(b *bench) { b.sink = poisonedSink{b.bus} }},
		{"when the state is saved", false, func(b *bench) { b.store = poisonedStore{b.store} }},
		{"when the state of a capability stream is saved", true, func(b *bench) { b.store = poisonedStore{b.store} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const maxBytes = 1 << 20
			limits := shard.NewLimits(maxBytes, 2, 2)
			log := new(lines)
			bad, good := newBench(t), newBench(t)
			if c.view {
				bad = newViewBench(t, false)
			}
			for _, b := range []*bench{bad, good} {
				b.shared, b.opts.Limits = true, limits.Stream()
			}
			bad.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
			c.poison(bad)
			bad.insertRows(400, c.view)
			good.insertRows(400, false)
			s, stopBad := bad.run(t)
			eventually(t, "the stream stops", func() bool { return s.Status().State == shard.Stopped })
			expectText(t, s.Status().LastError, "panic: a defect")
			eventually(t, "the stack is in the log", func() bool { return log.count("shard_test.defect") > 0 })
			// Nothing is held that the other stream could need: all that one stream may use is
			// free.
			if left := limits.InFlight(); left != 0 {
				t.Errorf("%d bytes are still reserved", left)
			}
			// Invariant 1: what is saved is on the bus.
			if at, sent := bad.position(t), bad.count(topic); at >= poisoned || int(at) > sent {
				t.Errorf("the position is %d, with %d messages on the bus", at, sent)
			}
			if _, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}}); err == nil {
				t.Error("the stopped shard takes nominations")
			}
			_, stopGood := good.run(t)
			good.saved(t, 400)
			stopGood()
			stopBad()

			// With the defect fixed it goes on behind what was saved, and nothing is missing.
			bad.hook, bad.sink = nil, nil
			bad.opts.Route = func(*event.Event) string { return topic }
			if poisoned, ok := bad.store.(poisonedStore); ok {
				bad.store = poisoned.Store
			}
			bad.runTo(t, 400)
			ids := bad.ids(topic)
			slices.Sort(ids)
			if n := len(slices.Compact(ids)); n != 400 {
				t.Errorf("%d of 400 rows are on the bus", n)
			}
		})
	}
}

// panickingSink stores the messages of the first shard and panics. It tells no offsets of others.
type panickingSink struct{ sink.Sink }

func (s panickingSink) Publish(ctx context.Context, messages []sink.Message) (sink.Outcome, error) {
	out, err := silentSink(s).Publish(ctx, messages)
	if messages[0].Shard == shardNames[0] {
		defect()
	}
	return out, err
}

// TestAPanicLeavesNothingInFlight: what a shard that panicked had sent has an unknown outcome. A
// reader that meets it on behalf of another shard does not wait for it (rule 4).
func TestAPanicLeavesNothingInFlight(t *testing.T) {
	instantly(t, "of two shards", func(t *testing.T) {
		b := newViewBench(t, false)
		b.second = newViewBench(t, false).table
		b.sink = panickingSink{b.bus}
		b.table.Insert("a", "1", "0")
		s, _ := b.run(t)
		eventually(t, "the shard stops", func() bool { return s.Status().State == shard.Stopped })
		b.second.Insert("b", "1", "0")
		eventually(t, "the other one goes on", func() bool { return b.positionOf(t, shardNames[1]) == 1 })
	})
}

// insertRows commits n rows, all older than any window, of a capability stream where view says so.
func (b *bench) insertRows(n int, view bool) {
	if !view {
		b.insert(n)
		return
	}
	for i := range n {
		b.table.Insert(entityName(i), "ok", "0", "2020-01-01 00:00:00.000000")
	}
}

func entityName(i int) string {
	return "e" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26))
}
