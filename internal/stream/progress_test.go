package stream_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

var (
	key  = store.Key{Stream: "orders", Shard: "orders_1"}
	base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

type shard struct {
	p     *stream.Progress
	store *memory.Store
	order source.IDOrder
}

// newShard opens the progress of a shard of which m has what it has.
func newShard(t testing.TB, m *memory.Store) *shard {
	t.Helper()
	s := &shard{store: m}
	s.reopen(t)
	return s
}

func (s *shard) reopen(t testing.TB) {
	t.Helper()
	saved, _, err := s.store.Progress(context.Background(), key)
	must.OK(t, err)
	if s.p, err = stream.OpenProgress(context.Background(), s.store, key, saved, ledger.Options{MaxBytes: 1 << 20, Order: s.order}); err != nil {
		t.Fatal(err)
	}
}

func (s *shard) apply(t testing.TB, change store.ShardChange) {
	t.Helper()
	must.OK(t, s.store.Apply(context.Background(), &store.Batch{Shards: []store.ShardChange{change}}))
	s.p.Saved()
}

func (s *shard) command(t testing.TB, b *store.Batch) {
	t.Helper()
	must.OK(t, s.store.Apply(context.Background(), b))
	s.reopen(t)
}

// set is bridge checkpoint set.
func (s *shard) set(t testing.TB, kind event.Kind, id uint64) stream.PositionSet {
	t.Helper()
	b, moved, err := stream.SetPosition{Key: key, Kind: kind, ID: id, Epoch: 5, Now: base}.Batch(context.Background(), s.store)
	must.OK(t, err)
	s.command(t, b)
	return moved
}

func (s *shard) flush(t testing.TB, now time.Time) {
	t.Helper()
	change := must.Get(s.p.Flush(now))(t)
	s.apply(t, change)
}

func (s *shard) note(epoch uint64, origin sink.Origin, rows ...uint64) {
	for _, row := range rows {
		s.p.Note(row, origin, &sink.State{Epoch: epoch, Seq: row})
	}
}

func (s *shard) missing() []uint64 {
	var ids []uint64
	for r := range s.p.Ledger().Unpublished {
		for id := r.First; id <= r.Last; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *shard) want(t testing.TB, position uint64, missing ...uint64) {
	t.Helper()
	if got := s.missing(); s.p.Position() != position || !slices.Equal(got, missing) {
		t.Errorf("position %d, missing %v, want %d, %v", s.p.Position(), got, position, missing)
	}
}

// polled returns the ranges that are read at the next poll, joined.
func (s *shard) polled(now time.Time) []source.Range { return s.p.Ledger().Hot(now).IDs }

func TestWhatIsUnseenAboveTheStoreIsPolled(t *testing.T) {
	s := newShard(t, memory.New())
	change := must.Get(s.p.Begin(stream.Beginning{First: store.Progress{Started: true}, Epoch: 1, At: base, Now: base}))(t)
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

func TestWhatIsMissingBelowTheFloorInTheStoreStaysSo(t *testing.T) {
	s := newShard(t, memory.New())
	first := store.Progress{Started: true, Position: 10, Floor: 10}
	change := must.Get(s.p.Begin(stream.Beginning{First: first, Committed: []uint64{1, 2, 3, 4, 5, 6, 8, 9, 10}, Epoch: 3, At: base, Now: base}))(t)
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
	must.OK(t, err)
	s.apply(t, change)
	if s.reopen(t); s.p.State().Floor != 3 || s.p.Ahead(7) || s.p.Ledger() != nil || s.p.NextLow() != 0 || s.p.Position() != 0 {
		t.Errorf("floor %d, position %d", s.p.State().Floor, s.p.Position())
	}
}

// TestPartsStayInMemoryUntilTheyAreApplied has an owner hand over much at once.
func TestPartsStayInMemoryUntilTheyAreApplied(t *testing.T) {
	m := memory.New()
	p := must.Get(stream.OpenProgress(context.Background(), m, key, store.Progress{}, ledger.Options{MaxBytes: 1, Order: source.OrderStrict}))(t)
	s := &shard{p: p, store: m}
	advance := func(through, step uint64) store.ShardChange {
		b := stream.Read{Through: through, At: base, Now: base}
		for id := p.Position() + step; id <= through; id += step {
			b.Passed = append(b.Passed, id)
		}
		change, _, err := p.Advance(&b)
		must.OK(t, err)
		return change
	}
	for id := uint64(1); id <= 3; id++ {
		change := advance(id, 1)
		s.apply(t, change)
	}
	// Another ledger, whose changes are counted from the first.
	p.Note(9, sink.FromReconcile, &sink.State{Epoch: 5, Seq: 1, Since: 5})
	for id := uint64(30_000_000); id < 30_900_000; id += 300 {
		p.Note(id, sink.FromReconcile, &sink.State{Epoch: 5, Seq: 1, Since: 5})
	}
	waiting := advance(20_000_000, 200)
	if !p.Ahead(30_000_300) || p.Ahead(30_000_301) || !p.Ahead(30_899_700) || p.Err() != nil {
		t.Fatalf("what is ahead is forgotten: %v", p.Err())
	}
	for id := uint64(11); id < 20_000_000; id += 99_999 {
		if want := id%200 != 0; p.Ledger().Missing(id) != want || p.Err() != nil {
			t.Fatalf("%d is missing: %t; %v", id, !want, p.Err())
		}
	}
	in := p.Ledger().Stats(base).Bytes
	s.apply(t, waiting)
	advance(20_000_001, 1)
	if out := p.Ledger().Stats(base).Bytes; out > in*3/4 {
		t.Errorf("%d bytes before they were applied, %d after", in, out)
	}
}
