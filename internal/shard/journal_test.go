package shard_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bridge/checkpoint"
	checkpointmemory "bridge/checkpoint/memory"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
	sourcememory "bridge/source/memory"
)

// gatedSink publishes a batch for each token at its gate, and all once that is open.
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

// journaled returns the rows of the messages of each journal of the shard.
func (b *bench) journaled(t testing.TB) (rows [][]uint64) {
	t.Helper()
	state, err := b.store.Load(t.Context(), key)
	if err != nil {
		return nil
	}
	for _, j := range state.Journals {
		var of []uint64
		for i := range j.Messages {
			of = append(of, j.Messages[i].RowID)
		}
		rows = append(rows, of)
	}
	return rows
}

// mustStayJournaled fails the test unless these journals come to be there, and no other one for a while.
func (b *bench) mustStayJournaled(t *testing.T, want ...[]uint64) {
	t.Helper()
	same := func() bool { return slices.EqualFunc(b.journaled(t), want, slices.Equal[[]uint64]) }
	eventually(t, "the journals", same)
	for range 50 {
		if wait(t, time.Millisecond); !same() {
			t.Fatalf("the journals have the rows %v, want %v", b.journaled(t), want)
		}
	}
}

// killed returns a bench that begins where b stands, as after a kill, with the bus as it is.
func (b *bench) killed() *bench {
	next := *b
	next.store, next.sink = b.store.(*checkpointmemory.Store).Copy(), nil
	return &next
}

func TestTheNextJournalIsSavedWhileABatchIsPublished(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows, b.shared = 1, true
	gated := gatedSink{b.bus, make(chan struct{})}
	b.sink = gated
	for _, name := range []string{"a", "b", "c", "d"} {
		b.table.Replace(name, "1", "0", now())
	}
	_, stop := b.run(t)
	b.mustStayJournaled(t, []uint64{1}, []uint64{2})
	if got := b.position(t); got != 0 {
		t.Errorf("the position is %d before anything was acknowledged", got)
	}
	next := b.killed()

	t.Run("a kill sends both, in their order, before anything is read", func(t *testing.T) {
		next.table.Replace("a", "2", "0", now())
		_, stop := next.run(t)
		next.expectSaid(t, "Added a=1", "Added b=1", "Added c=1", "Added d=1", "Modified a=2")
		eventually(t, "saved", func() bool { return next.position(t) == 5 && len(next.journaled(t)) == 0 })
		stop()
	})
	t.Run("a repeat is the same, and a save of one leaves the journal behind it", func(t *testing.T) {
		close(gated.gate)
		eventually(t, "saved", func() bool { return b.position(t) == 5 && len(b.journaled(t)) == 0 })
		stop()
		ids := make(map[string]bool)
		for _, m := range b.bus.Messages(topic) {
			ids[m.ID] = true
		}
		if len(ids) != 5 {
			t.Errorf("the bus has %d events, want the same five twice", len(ids))
		}
	})
}

// TestABatchWithoutMessagesIsThroughBeforeTheNextJournal: such a batch has no journal, and what a journal says goes on from it.
func TestABatchWithoutMessagesIsThroughBeforeTheNextJournal(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows, b.shared = 1, true
	at := now()
	b.table.Replace("a", "1", "0", at)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 1 && len(b.journaled(t)) == 0 })
	stop()

	gated := gatedSink{b.bus, make(chan struct{})}
	b.sink = gated
	b.table.Replace("b", "1", "0", at)
	b.table.Replace("a", "1", "0", at) // no news, and yet another row
	b.table.Replace("c", "1", "0", at)
	_, stop = b.run(t)
	b.mustStayJournaled(t, []uint64{2})
	close(gated.gate)
	b.expectSaid(t, "Added a=1", "Added b=1", "Added c=1")
	eventually(t, "saved", func() bool { return b.position(t) == 4 && len(b.journaled(t)) == 0 })
	stop()

	next := b.killed()
	s, stop := next.run(t)
	all := reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 4}}, Entities: [][]byte{entity("a"), entity("b"), entity("c")}}
	if v := nominate(t, s, all); v != (reconcile.Verdict{}) {
		t.Errorf("the view has lost something: %+v", v)
	}
	stop()
}

// countingStore counts saves, and the most journals that were there at once.
type countingStore struct {
	checkpoint.Store
	saves, most atomic.Int64
}

func (s *countingStore) Save(ctx context.Context, key checkpoint.Key, state checkpoint.State) error {
	err := s.Store.Save(ctx, key, state)
	if err == nil {
		s.saves.Add(1)
		var now checkpoint.State
		if now, err = s.Load(ctx, key); int64(len(now.Journals)) > s.most.Load() {
			s.most.Store(int64(len(now.Journals)))
		}
	}
	return err
}

// TestABacklogIsJournaledOnce: whatever waits behind them, two journals are in the file at most, and all is published once.
func TestABacklogIsJournaledOnce(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows = 7
	const rows = 500
	for n := range rows {
		b.table.Replace(string(rune('a'+n%26))+string(rune('a'+n/26)), "1", "0", now())
	}
	store := &countingStore{Store: checkpointmemory.New()}
	b.store = store
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == rows && len(b.journaled(t)) == 0 })
	stop()
	if got := len(b.bus.Messages(topic)); got != rows {
		t.Errorf("%d messages of %d rows", got, rows)
	}
	if most := store.most.Load(); most > 2 {
		t.Errorf("%d journals were in the file at once", most)
	}
	if saves := store.saves.Load(); saves > 2*(rows/7+1)+10 {
		t.Errorf("%d saves for %d batches", saves, rows/7+1)
	}
}

// TestWhatIsAcknowledgedIsSavedWhileTheNextBatchWaitsForTheBus: however long that takes, a kill repeats no more than what is on its way.
func TestWhatIsAcknowledgedIsSavedWhileTheNextBatchWaitsForTheBus(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.BatchRows = 1
	gate := make(chan struct{}, 1)
	b.sink = gatedSink{b.bus, gate}
	gate <- struct{}{}
	b.table.Replace("a", "1", "0", now())
	b.table.Replace("b", "1", "0", now())
	_, stop := b.run(t)
	b.expectSaid(t, "Added a=1")
	eventually(t, "the first one is saved", func() bool { return b.position(t) == 1 })
	b.mustStayJournaled(t, []uint64{2})
	close(gate)
	eventually(t, "saved", func() bool { return b.position(t) == 2 && len(b.journaled(t)) == 0 })
	stop()
}

// TestRowsOfAReleaseStreamThatReconcileFoundHaveAJournal: without a time of its own such a row would have another one when it is read again.
func TestRowsOfAReleaseStreamThatReconcileFoundHaveAJournal(t *testing.T) {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
	b.shared = true
	b.table.Insert("a")
	b.table.Insert("b")
	if err := b.store.Save(t.Context(), key, checkpoint.State{Position: ledger.Position{ID: 2}, Given: []source.Range{{First: 2, Last: 2}}}); err != nil {
		t.Fatal(err)
	}
	gated := gatedSink{b.bus, make(chan struct{})}
	b.sink = gated
	s, stop := b.run(t)
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = s.Nominate(ctx, reconcile.Nomination{Rows: []source.Range{{First: 2, Last: 2}}}) }() // it is killed
	b.mustStayJournaled(t, []uint64{2})
	next := b.killed()
	cancel()
	close(gated.gate)
	eventually(t, "published", func() bool { return len(b.bus.Messages(topic)) == 1 })
	eventually(t, "saved", func() bool { return len(b.journaled(t)) == 0 })
	stop()
	_, stop = next.run(t)
	eventually(t, "published again", func() bool { return len(b.bus.Messages(topic)) == 2 && len(next.journaled(t)) == 0 })
	stop()
	if all := b.bus.Messages(topic); all[0].ID != all[1].ID || string(all[0].Value) != string(all[1].Value) {
		t.Errorf("the repeat is another event:\n%s\n%s", all[0].Value, all[1].Value)
	}
}
