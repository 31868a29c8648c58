package stream_test

import (
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

func TestWhatIsUnseenAboveTheStoreIsPolled(t *testing.T) {
	s := newShard(t, memory.New())
	change, err := s.p.Begin(stream.Beginning{First: store.Progress{Started: true}, Epoch: 1, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change)
	s.note(1, sink.FromTail, 10)
	s.flush(t, base)
	s.reopen(t)
	s.note(1, sink.FromTail, 500_000)
	s.flush(t, base)
	if got := s.polled(base); !slices.Equal(got, []source.Range{{First: 1, Last: 9}, {First: 11, Last: 499_999}}) || s.p.State().ReconcileDue {
		t.Errorf("polls %v; a reconcile is due: %t", got, s.p.State().ReconcileDue)
	}
}

func TestARebuildPollsTheHighestIDsOnly(t *testing.T) {
	m := memory.New()
	for _, reopen := range []bool{false, true} {
		s := newShard(t, m)
		s.note(1, sink.FromTail, 60_000)
		s.flush(t, base)
		if reopen {
			// What an earlier catch-up has applied is not what a running shard had.
			s.reopen(t)
		}
		s.note(1, sink.FromTail, 500_000)
		s.flush(t, base)
		if got := s.polled(base); !slices.Equal(got, []source.Range{{First: 400_001, Last: 499_999}}) || !s.p.State().ReconcileDue {
			t.Errorf("polls %v; a reconcile is due: %t", got, s.p.State().ReconcileDue)
		}
		if !s.p.Ledger().Missing(7) || s.p.Ledger().Missing(60_000) {
			t.Error("7 is missing and 60000 is not")
		}
		if got := s.p.NextLow(); got != 1 {
			t.Errorf("the low is %d while a reconcile is due", got)
		}
		s.p.SetReconcileDue(false)
		s.flush(t, base)
		if got := s.p.NextLow(); got != 400_001 {
			t.Errorf("the low is %d after the reconcile", got)
		}
		m = memory.New()
	}
}

// TestAWaitingProcessPollsWhatItSawMissing: it began without a store, and waits while another one
// publishes.
func TestAWaitingProcessPollsWhatItSawMissing(t *testing.T) {
	s := newShard(t, memory.New())
	s.note(1, sink.FromTail, 300_000)
	s.flush(t, base)
	s.p.Follow()
	s.note(1, sink.FromTail, 300_002)
	s.flush(t, base)
	s.note(1, sink.FromTail, 500_000)
	s.flush(t, base)
	s.reopen(t)
	s.note(1, sink.FromTail, 700_000)
	s.flush(t, base)
	want := []source.Range{{First: 200_001, Last: 299_999}, {First: 300_001, Last: 300_001}, {First: 300_003, Last: 499_999}, {First: 500_001, Last: 699_999}}
	if got := s.polled(base); !slices.Equal(got, want) || !s.p.State().ReconcileDue {
		t.Errorf("polls %v; a reconcile is due: %t", got, s.p.State().ReconcileDue)
	}
}

func TestWhatIsMissingBelowTheFloorInTheStoreStaysSo(t *testing.T) {
	s := newShard(t, memory.New())
	first := store.Progress{Started: true, Position: 10, Floor: 10}
	change, err := s.p.Begin(stream.Beginning{First: first, Committed: []uint64{1, 2, 3, 4, 5, 6, 8, 9, 10}, Epoch: 3, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change)
	s.reopen(t)
	s.p.Note(11, sink.FromTail, &sink.State{Epoch: 3, Seq: 1, Floor: 10})
	s.flush(t, base)
	s.want(t, 11, 7)
}

func TestGapsAgeWithTheDatabasesClock(t *testing.T) {
	s := newShard(t, memory.New())
	s.note(1, sink.FromTail, 1, 3)
	s.flush(t, base.Add(3*time.Hour))
	s.reopen(t)
	// The database's clock is three hours behind the host's.
	for _, g := range s.p.Ledger().Gaps(0) {
		if age := base.Sub(g.Missed); age > time.Minute {
			t.Errorf("%v was missed %s ago", g, age)
		}
	}
	if got := s.polled(base); len(got) != 1 {
		t.Errorf("polls %v", got)
	}
}

func TestIDsWithoutAnOrder(t *testing.T) {
	s := newShard(t, memory.New())
	s.order = source.OrderNone
	s.reopen(t)
	s.p.Note(7, sink.FromReconcile, &sink.State{Epoch: 4, Seq: 9, Floor: 3})
	s.flush(t, base)
	change, _, err := s.p.Advance(&stream.Read{Through: 9, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change)
	if s.reopen(t); s.p.State().Floor != 3 || s.p.Ahead(7) || s.p.Ledger() != nil || s.p.NextLow() != 0 || s.p.Position() != 0 {
		t.Errorf("floor %d, position %d", s.p.State().Floor, s.p.Position())
	}
}
