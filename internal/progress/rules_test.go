package progress_test

import (
	"slices"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/progress"
	"bridge/sink"
	"bridge/source"
)

func TestThePositionRisesToRowsOfTheTailOnly(t *testing.T) {
	s := newShard(t, memory.New())
	s.note(1, sink.FromTail, 1, 2, 4)
	s.note(1, sink.FromReconcile, 9)
	s.note(1, sink.FromModified, 3_000_000)
	s.note(1, sink.FromLate, 6)
	s.note(1, sink.FromSnapshot, 5)
	s.flush(t, base)
	s.want(t, 4, 3)
	for id, want := range map[uint64]bool{4: false, 5: true, 6: true, 7: false, 9: true, 3_000_000: true, 3_000_001: false} {
		if s.p.Ahead(id) != want {
			t.Errorf("%d is ahead: %t", id, !want)
		}
	}
	s.reopen(t)
	s.note(1, sink.FromTail, 10)
	s.note(1, sink.FromReconcile, 3)
	s.flush(t, base)
	s.want(t, 10, 7, 8)
	if s.p.Ahead(9) || !s.p.Ahead(3_000_000) {
		t.Error("the position passed 9 and nothing above")
	}
}

func TestTheTailPassesWhatIsAhead(t *testing.T) {
	s := newShard(t, memory.New())
	s.note(1, sink.FromTail, 1)
	s.note(1, sink.FromReconcile, 4, 5, 8)
	s.flush(t, base)
	// 4 is in the page; the row 5 is gone; 3 was nominated (rule 26).
	change, err := s.p.Advance(progress.Batch{Through: 6, Passed: []uint64{2, 4, 6}, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change.ShardChange)
	s.want(t, 6, 3)
	if s.p.Ahead(5) || !s.p.Ahead(8) {
		t.Error("8 is ahead, and nothing below")
	}
	s.reopen(t)
	s.want(t, 6, 3)
	if s.p.Ahead(5) || !s.p.Ahead(8) {
		t.Error("after a kill 8 is ahead, and nothing below")
	}
}

func TestANominatedRowStaysMissing(t *testing.T) {
	s := newShard(t, memory.New())
	advance := func(b progress.Batch) progress.Change {
		b.At, b.Now = base, base
		change, err := s.p.Advance(b)
		if err != nil {
			t.Fatal(err)
		}
		s.apply(t, change.ShardChange)
		return change
	}
	// The last row of the page was nominated: the tail passes it all the same.
	advance(progress.Batch{Through: 3, Passed: []uint64{1, 2}})
	s.want(t, 3, 3)
	if got := s.polled(base); !slices.Equal(got, []source.Range{{First: 3, Last: 3}}) {
		t.Errorf("polls %v", got)
	}
	// The view does not have it yet.
	if change := advance(progress.Batch{}); change.Filled != 0 {
		t.Errorf("%d rows were filled", change.Filled)
	}
	s.reopen(t)
	s.want(t, 3, 3)
	if change := advance(progress.Batch{Filled: []uint64{3, 2}}); change.Filled != 1 {
		t.Errorf("%d rows were filled", change.Filled)
	}
	s.want(t, 3)
}

func TestWhatIsUnseenAboveTheStoreIsPolled(t *testing.T) {
	s := newShard(t, memory.New())
	change, err := s.p.Begin(progress.Beginning{First: store.Progress{Started: true}, Epoch: 1, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change)
	s.note(1, sink.FromTail, 10)
	s.flush(t, base)
	s.reopen(t)
	s.note(1, sink.FromTail, 500_000)
	s.flush(t, base)
	if got := s.polled(base); !slices.Equal(got, []source.Range{{First: 1, Last: 9}, {First: 11, Last: 499_999}}) || s.p.ReconcileDue() {
		t.Errorf("polls %v; a reconcile is due: %t", got, s.p.ReconcileDue())
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
		if got := s.polled(base); !slices.Equal(got, []source.Range{{First: 400_001, Last: 499_999}}) || !s.p.ReconcileDue() {
			t.Errorf("polls %v; a reconcile is due: %t", got, s.p.ReconcileDue())
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
	if got := s.polled(base); !slices.Equal(got, want) || !s.p.ReconcileDue() {
		t.Errorf("polls %v; a reconcile is due: %t", got, s.p.ReconcileDue())
	}
}

func TestDeadLettersAndOldMessagesFillGaps(t *testing.T) {
	s := newShard(t, memory.New())
	s.note(2, sink.FromTail, 5)
	s.flush(t, base)
	s.note(1, sink.FromLate, 2)
	s.note(1, sink.FromTail, 3)
	s.flush(t, base)
	s.want(t, 5, 1, 4)
}

func TestTheNewestMessagesFloorHolds(t *testing.T) {
	state := func(epoch, seq, floor uint64) *sink.State {
		return &sink.State{Epoch: epoch, Seq: seq, Floor: floor}
	}
	s := newShard(t, memory.New())
	s.p.Note(120, sink.FromTail, state(2, 5, 100))
	s.p.Note(110, sink.FromTail, state(2, 4, 50))
	s.flush(t, base)
	s.reopen(t)
	s.p.Note(111, sink.FromTail, state(1, 9, 10))
	s.flush(t, base)
	if got := s.p.Floor(); got != 100 {
		t.Errorf("the floor is %d", got)
	}
	if got := s.missing(); s.p.Position() != 120 || got[0] != 101 || len(got) != 20-3 {
		t.Errorf("position %d, missing %v", s.p.Position(), got)
	}
	if !s.p.Started() || s.p.NextLow() != 101 {
		t.Errorf("started %t, low %d", s.p.Started(), s.p.NextLow())
	}
	t.Run("what is missing below the floor in the store stays so", func(t *testing.T) {
		s := newShard(t, memory.New())
		first := store.Progress{Started: true, Position: 10, Floor: 10}
		change, err := s.p.Begin(progress.Beginning{First: first, Committed: []uint64{1, 2, 3, 4, 5, 6, 8, 9, 10}, Epoch: 3, At: base, Now: base})
		if err != nil {
			t.Fatal(err)
		}
		s.apply(t, change)
		s.reopen(t)
		s.p.Note(11, sink.FromTail, state(3, 1, 10))
		s.flush(t, base)
		s.want(t, 11, 7)
	})
}

func TestLow(t *testing.T) {
	fill := func(trust bool) *shard {
		s := newShard(t, memory.New())
		if trust {
			s.p.TrustLow()
		}
		s.note(1, sink.FromTail, 30)
		s.p.Note(33, sink.FromTail, &sink.State{Epoch: 1, Seq: 33, Low: 21})
		s.note(1, sink.FromTail, 34)
		s.flush(t, base)
		return s
	}
	t.Run("ids below it count as published where messages have expired", func(t *testing.T) {
		s := fill(true)
		s.want(t, 34, 21, 22, 23, 24, 25, 26, 27, 28, 29, 31, 32)
		s.p.Note(35, sink.FromLate, &sink.State{Epoch: 1, Seq: 36, Low: 37})
		s.flush(t, base)
		s.want(t, 36)
	})
	t.Run("a kill does not forget it", func(t *testing.T) {
		s := fill(false)
		s.reopen(t)
		s.p.TrustLow()
		s.flush(t, base)
		s.want(t, 34, 21, 22, 23, 24, 25, 26, 27, 28, 29, 31, 32)
	})
	t.Run("else they are missing", func(t *testing.T) {
		s := fill(false)
		if got := s.missing(); len(got) != 31 || s.p.Low() != 21 {
			t.Errorf("missing %v, low %d", got, s.p.Low())
		}
	})
}

func TestSince(t *testing.T) {
	t.Run("older messages do not count", func(t *testing.T) {
		s := newShard(t, memory.New())
		s.apply(t, store.ShardChange{Key: key, Progress: &store.Progress{Since: 5, Saved: base}})
		s.reopen(t)
		s.p.Note(7, sink.FromTail, &sink.State{Epoch: 4, Seq: 9, Floor: 3, Low: 3})
		s.flush(t, base)
		if s.p.Started() || s.p.Position() != 0 || s.p.Floor() != 0 || s.p.Low() != 0 || s.p.ReconcileDue() {
			t.Errorf("started %t, position %d, floor %d, low %d", s.p.Started(), s.p.Position(), s.p.Floor(), s.p.Low())
		}
	})
	t.Run("a message tells it first", func(t *testing.T) {
		s := newShard(t, memory.New())
		s.note(4, sink.FromTail, 1, 2, 3, 4, 5, 6, 7, 8)
		s.note(4, sink.FromReconcile, 20, 11)
		s.flush(t, base)
		// The position was set to 5, then rows were published again.
		s.p.Note(7, sink.FromTail, &sink.State{Epoch: 6, Seq: 1, Since: 5, Low: 6})
		s.note(4, sink.FromTail, 10)
		s.flush(t, base)
		s.want(t, 7, 6)
		s.reopen(t)
		if s.want(t, 7, 6); s.p.Since() != 5 || s.p.Ahead(20) || !s.p.ReconcileDue() {
			t.Errorf("since %d, 20 is ahead: %t", s.p.Since(), s.p.Ahead(20))
		}
		s.p.Note(8, sink.FromTail, &sink.State{Epoch: 6, Seq: 2, Since: 5, Low: 7})
		s.flush(t, base)
		s.want(t, 8)
	})
}

func TestLowOfTheNextMessage(t *testing.T) {
	s := newShard(t, memory.New())
	var changes []progress.Change
	for _, b := range []progress.Batch{{Through: 3, Passed: []uint64{1, 2, 3}}, {Through: 6, Passed: []uint64{4, 6}}, {Filled: []uint64{5}}} {
		b.At, b.Now = base, base
		change, err := s.p.Advance(b)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, change)
	}
	for i, want := range []uint64{1, 4, 5, 7} {
		if i > 0 {
			s.apply(t, changes[i-1].ShardChange)
			s.p.Applied(changes[i-1].Number)
		}
		if got := s.p.NextLow(); got != want {
			t.Errorf("after %d batches the low is %d, want %d", i, got, want)
		}
	}
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
	s.p = openWith(t, s.store, source.OrderNone)
	s.p.Note(7, sink.FromReconcile, &sink.State{Epoch: 4, Seq: 9, Floor: 3})
	s.p.Fill(base)
	s.flush(t, base)
	change, err := s.p.Advance(progress.Batch{Through: 9, At: base, Now: base})
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change.ShardChange)
	if s.p = openWith(t, s.store, source.OrderNone); s.p.Floor() != 3 || s.p.Ahead(7) || s.p.Ledger() != nil || s.p.NextLow() != 0 || s.p.Position() != 0 {
		t.Errorf("floor %d, position %d", s.p.Floor(), s.p.Position())
	}
}

// TestSinceWhileChangesWait has a running shard be told that a command was given to another copy of
// its store: what is applied late does not count as that of the new ledger.
func TestSinceWhileChangesWait(t *testing.T) {
	s := newShard(t, memory.New())
	var changes []progress.Change
	advance := func(through uint64, passed ...uint64) {
		change, err := s.p.Advance(progress.Batch{Through: through, Passed: passed, At: base, Now: base})
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, change)
	}
	advance(3, 1, 2, 3)
	advance(6, 4, 5, 6)
	s.p.Note(9, sink.FromTail, &sink.State{Epoch: 5, Seq: 1, Since: 5})
	advance(2, 1)
	for i, want := range []uint64{1, 1, 2} {
		s.apply(t, changes[i].ShardChange)
		s.p.Applied(changes[i].Number)
		if got := s.p.NextLow(); got != want {
			t.Errorf("after %d changes the low is %d, want %d", i+1, got, want)
		}
	}
	for range 2 {
		if s.want(t, 2, 2); !s.p.Ahead(9) || s.p.Since() != 5 {
			t.Errorf("since %d", s.p.Since())
		}
		s.reopen(t)
	}
}
