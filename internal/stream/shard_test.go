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
)

var (
	key  = store.Key{Stream: "orders", Shard: "orders_1"}
	base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// shard is a progress with its store.
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
	if err != nil {
		t.Fatal(err)
	}
	if s.p, err = stream.OpenProgress(context.Background(), s.store, key, saved, ledger.Options{MaxBytes: 1 << 20, Order: s.order}); err != nil {
		t.Fatal(err)
	}
}

func (s *shard) apply(t testing.TB, change store.ShardChange) {
	t.Helper()
	if err := s.store.Apply(context.Background(), &store.Batch{Shards: []store.ShardChange{change}}); err != nil {
		t.Fatal(err)
	}
	s.p.Saved()
}

// command applies what a command changes in the store, and opens the progress again.
func (s *shard) command(t testing.TB, b *store.Batch) {
	t.Helper()
	if err := s.store.Apply(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	s.reopen(t)
}

// set is bridge checkpoint set.
func (s *shard) set(t testing.TB, kind event.Kind, id uint64) stream.PositionSet {
	t.Helper()
	b, moved, err := stream.SetPosition{Key: key, Kind: kind, ID: id, Epoch: 5, Now: base}.Batch(context.Background(), s.store)
	if err != nil {
		t.Fatal(err)
	}
	s.command(t, b)
	return moved
}

func (s *shard) flush(t testing.TB, now time.Time) {
	t.Helper()
	change, err := s.p.Flush(now)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, change)
}

// note notes rows of an origin in an epoch.
func (s *shard) note(epoch uint64, origin sink.Origin, rows ...uint64) {
	for _, row := range rows {
		s.p.Note(row, origin, &sink.State{Epoch: epoch, Seq: row})
	}
}

// missing returns the missing ids up to the position.
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
