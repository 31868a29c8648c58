package shard_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	sourcememory "bridge/source/sourcetest/memory"
)

// gatedSink publishes a batch for each token at its gate, and all once that is closed.
type gatedSink struct {
	sink.Sink
	gate chan struct{}
}

func (s gatedSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	select {
	case <-s.gate:
		return s.Sink.Publish(ctx, batch)
	case <-ctx.Done():
		return sink.Outcome{Status: make([]sink.Status, len(batch))}, context.Cause(ctx)
	}
}

// TestWhatIsAcknowledgedIsSavedWhileTheNextBatchWaitsForTheBus, however long that takes.
func TestWhatIsAcknowledgedIsSavedWhileTheNextBatchWaitsForTheBus(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows = 1
	gate := make(chan struct{}, 1)
	b.sink = gatedSink{b.bus, gate}
	gate <- struct{}{}
	b.table.Insert("a", "1", "0")
	b.table.Insert("b", "1", "0")
	b.run(t)
	b.saved(t, 1)
	b.expectSaid(t, "Added a=1")
	close(gate)
	b.saved(t, 2)
}

// silentSink is a bus that tells no offsets, as a broker that only knows that it has a batch.
type silentSink struct{ sink.Sink }

func (s silentSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out, err := s.Sink.Publish(ctx, batch)
	clear(out.At)
	return out, err
}

// TestATopicThatIsMadeAgainIsRegistered as soon as it has a message that was acknowledged: its
// entry says where that lies, so that a loss is noticed (rule 10).
func TestATopicThatIsMadeAgainIsRegistered(t *testing.T) {
	instantly(t, "before anything is looked up", func(t *testing.T) {
		b := newViewBench(t, false)
		b.tick = time.Minute
		b.insertRows(3, true)
		b.run(t)
		b.saved(t, 3)
		b.bus.Wipe()
		for _, destination := range b.destinations {
			b.bus.Create(destination)
		}
		b.table.Insert("again", "1", "0")
		b.saved(t, 4)
		list, err := b.store.Lookup(t.Context(), "items", store.Asks(entity("again")), nil)
		if err != nil {
			t.Fatal(err)
		}
		image, err := b.store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(image.Registrations, func(r store.Registration) bool {
			return r.Number == list[0].At.TP && r.TP == topic && !r.Retired
		}) {
			t.Errorf("the entry is %+v, the registrations are %+v", list[0], image.Registrations)
		}
	})
}

// TestRowsOfAReleaseStreamThatReconcileFoundAreReadBack: only the bus shows that they were
// published.
func TestRowsOfAReleaseStreamThatReconcileFoundAreReadBack(t *testing.T) {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
	b.opts.GapTTL, b.opts.HotFor, b.opts.SweepEvery = time.Nanosecond, time.Millisecond, time.Millisecond
	b.table.Insert("a")
	b.table.InsertAt(3, "c")
	s, stop := b.run(t)
	eventually(t, "unpolled", func() bool { return s.Status().Gaps.Unpolled == 1 })
	stop()
	b.table.InsertAt(2, "b")
	killed := *b
	killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	s, stop = killed.run(t)
	named := reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}}
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	go func() { _, _ = s.Nominate(t.Context(), named) }() // it is killed
	eventually(t, "published", func() bool { return b.count(topic) == 3 })
	stop()
	s, stop = b.run(t)
	if v := nominate(t, s, named); v != (reconcile.Verdict{}) {
		t.Errorf("verdict %+v", v)
	}
	stop()
	if got := b.ids(topic); !slices.Equal(got, []uint64{1, 3, 2}) {
		t.Errorf("published %v", got)
	}
}

// TestAReconcileIsDueWhereTheStoreWasLost, also after a restart, until one has compared the whole
// table (rule 15).
func TestAReconcileIsDueWhereTheStoreWasLost(t *testing.T) {
	l := newRoutedLife(t, routes["one topic"])
	l.begin(t)
	l.lose(noStore, nil)
	for start, want := range []bool{true, true, false} {
		s, stop := l.run(t)
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		wish, due := s.ReconcileDue()
		if due != want {
			t.Errorf("start %d: a reconcile is due: %t, want %t", start, due, want)
		}
		if start == 1 {
			if err := s.Reconciled(t.Context(), wish); err != nil {
				t.Error(err)
			}
			if _, due := s.ReconcileDue(); due {
				t.Error("it is due still")
			}
		}
		stop()
	}
}

// TestCheckpointSetAfterAKill sets the checkpoint of a shard after a kill that left batches of
// unknown outcome.
func TestCheckpointSetAfterAKill(t *testing.T) {
	update := func(value string) func(*life) {
		return func(l *life) { l.update("a", value, "0", value != "1") }
	}
	replace := func(l *life) { l.replace("a", "1", "0") }
	remove := func(l *life) { l.remove("a") }
	nothing := func(*life) {}
	for _, c := range []struct {
		name         string
		before, then func(*life)
		// last is what the bus says in the end.
		last string
	}{
		{"a change", update("2"), nothing, "Modified a=2"},
		{"a change, then it is undone", update("2"), update("1"), "a=1"},
		{"a change, then another", update("2"), update("3"), "Modified a=3"},
		{"a change, then the entity goes", update("2"), remove, "Deleted a"},
		{"a change, then another row as before", update("2"), replace, "a=1"},
		{"a delete", remove, nothing, "Deleted a"},
		{"a delete, then the entity is back as it was", remove, replace, "a=1"},
	} {
		instantly(t, c.name, func(t *testing.T) {
			for step, died := 0, true; died; step++ {
				l := newRoutedLife(t, routes["one topic"])
				l.begin(t)
				c.before(l)
				died = l.dies(t, step, 30*time.Millisecond, true)
				l.set(t, l.position(t))
				c.then(l)
				l.lived(t)
				if !strings.HasSuffix(l.last(t, "a"), c.last) {
					t.Fatalf("killed at step %d: the bus says %v", step, texts(l.said(t)))
				}
				l.threads(t)
				l.saysNothingNew(t)
			}
		})
	}
}
