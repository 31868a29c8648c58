package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// lateFeed is the feed of a stream with one table, and the store that it writes: that takes nothing
// for which fault returns an error.
type lateFeed struct {
	*Feed
	t     *testing.T
	kept  store.Store
	fault func(*store.Batch) error
}

type lateStore struct {
	store.Store
	f *lateFeed
}

func (s lateStore) Apply(ctx context.Context, b *store.Batch) error {
	if s.f.fault != nil {
		if err := s.f.fault(b); err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, b)
}

// newLateFeed returns a feed of a process that has started on a store. Bound is how many entities
// may wait for their owners.
func newLateFeed(t *testing.T, kept store.Store, bound int) *lateFeed {
	v := NewView("s", kept, func(tp uint32) uint32 { return tp })
	movers := NewMovers(v, MoversOptions{
		Bound: bound,
		Read: func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
			return FoundRows{Rows: make([][]Found, len(entities)), Unproved: true}, nil
		},
		Publish: func(context.Context, string, []Move) error { return nil },
	})
	f := &lateFeed{t: t, kept: kept}
	f.Feed = NewFeed(FeedOptions{
		Stream: "s", View: v, Movers: movers, Store: kept, Shards: []FeedShard{{Name: "a"}}, Known: []string{"gone"},
		Committer: NewCommitter(lateStore{kept, f}, store.Image{}, outage.New(slog.New(slog.DiscardHandler))),
	})
	// Else a reconcile is due because the store was empty.
	if err := f.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// read has messages be read.
func (f *lateFeed) read(messages []Message) error {
	return f.Apply(f.t.Context(), messages, nil, Cover{})
}

// late applies late messages of a shard, of the entities from a number to below another one.
func (f *lateFeed) late(shard string, from, to int) {
	f.t.Helper()
	var messages []Message
	for i := from; i < to; i++ {
		messages = append(messages, Message{
			Stream: "s", Shard: shard, Row: uint64(i + 1), Key: fmt.Append(nil, i), Event: [16]byte{1}, Origin: sink.FromTail, Late: true,
			State: sink.State{Epoch: 5, Seq: uint64(i + 1), Digest: [16]byte{1}}, At: store.At{TP: 1, Offset: uint64(i)}, Time: time.Now(),
		})
	}
	if err := f.read(messages); err != nil {
		f.t.Fatal(err)
	}
}

// want fails the test unless so many entities wait, and a reconcile of the table is due or not by
// the store.
func (f *lateFeed) want(waiting int, due bool) {
	f.t.Helper()
	p, _, err := f.kept.Progress(f.t.Context(), store.Key{Stream: "s", Shard: "a"})
	if err != nil {
		f.t.Fatal(err)
	}
	if got := f.opts.Movers.Waiting(); got != waiting || p.ReconcileDue != due {
		f.t.Errorf("%d entities wait, want %d; a reconcile is due: %v, want %v", got, waiting, p.ReconcileDue, due)
	}
}

func (f *lateFeed) ready() {
	f.t.Helper()
	if err := f.Ready(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// decide has the owners decide all, and the store forget that.
func (f *lateFeed) decide() {
	f.t.Helper()
	for f.opts.Movers.Waiting() > 0 {
		if _, _, err := f.opts.Movers.Pass(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.ForgetDecided(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// TestLateEntitiesAreNamedInTheStore (rule 7): those of a table that is no more in the
// configuration, too. Each start nominates them until the store could forget them.
func TestLateEntitiesAreNamedInTheStore(t *testing.T) {
	kept, full := memory.New(), errors.New("the disk is full")
	newLateFeed(t, kept, 0).late("a", 0, 2)
	newLateFeed(t, kept, 0).late("gone", 2, 3)
	f := newLateFeed(t, kept, 0)
	f.late("a", 3, 5)
	f.want(0, false)
	f.ready()
	f.want(5, false)
	f.late("a", 5, 6)
	f.want(6, false)
	for f.opts.Movers.Waiting() > 0 {
		if _, _, err := f.opts.Movers.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.fault = func(*store.Batch) error { return full }
	if err := f.ForgetDecided(t.Context()); !errors.Is(err, full) {
		t.Error(err)
	}
	again := newLateFeed(t, kept, 0)
	again.ready()
	again.want(6, false)
	f.fault = nil
	f.decide()
	again = newLateFeed(t, kept, 0)
	again.ready()
	again.want(0, false)
}

// TestTooManyLateEntities have a reconcile be due, in one batch with their messages.
func TestTooManyLateEntities(t *testing.T) {
	t.Run("for the store", func(t *testing.T) {
		f := newLateFeed(t, memory.New(), 0)
		f.late("a", 0, maxLate)
		f.want(0, false)
		f.late("a", 0, maxLate+1)
		f.want(0, true)
	})
	t.Run("for the queue", func(t *testing.T) {
		f := newLateFeed(t, memory.New(), 2)
		f.ready()
		f.late("a", 0, 5)
		f.want(2, false)
		f.decide()
		f.want(0, true)
	})
}
