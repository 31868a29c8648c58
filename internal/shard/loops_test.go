package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/source"
)

// hang has what waits for it hang from begin until the end of that.
type hang struct{ atomic.Pointer[chan struct{}] }

func (h *hang) begin() (free func()) {
	c := make(chan struct{})
	h.Store(&c)
	return func() { h.Store(nil); close(c) }
}

func (h *hang) wait() {
	if c := h.Load(); c != nil {
		<-*c
	}
}

// stuckBench is a bench whose disk and whose reads may be made to hang.
type stuckBench struct {
	*bench
	t                     testing.TB
	full                  *faultyStore
	applies, loads, reads hang
}

// stuckStore is the disk of a stuckBench.
type stuckStore struct {
	store.Store
	b *stuckBench
}

func (s stuckStore) Apply(ctx context.Context, b *store.Batch) error {
	s.b.applies.wait()
	return s.Store.Apply(ctx, b)
}

func (s stuckStore) Progress(ctx context.Context, key store.Key) (store.Progress, bool, error) {
	s.b.loads.wait()
	return s.Store.Progress(ctx, key)
}

func TestALoopThatStandsStillShows(t *testing.T) {
	const limit = time.Minute
	nothing := func() {}
	for what, c := range map[string]struct {
		// loop is the one that stands still, empty for none; stick makes it do so and returns how
		// that ends.
		loop  string
		stick func(b *stuckBench) (free func())
	}{
		"a save that hangs, while the bus answers": {"publisher", func(b *stuckBench) func() { free := b.applies.begin(); b.insert(10); return free }},
		"a read that hangs":                        {"owner", func(b *stuckBench) func() { return b.reads.begin() }},
		"a read that hangs while the bus is away": {"owner", func(b *stuckBench) func() {
			release := b.bus.Pause(0)
			b.insert(10)
			wait(b.t, 5*time.Second)
			free := b.reads.begin()
			return func() { release(); free() }
		}},
		"a checkpoint that cannot be loaded": {"owner", nil},
		"nothing in a quiet table":           {"", func(*stuckBench) func() { return nothing }},
		"nothing until the next poll": {"", func(b *stuckBench) func() {
			wait(b.t, 5*time.Hour)
			return nothing
		}},
		"nothing in a bus that is away": {"", func(b *stuckBench) func() { release := b.bus.Pause(0); b.insert(5000); return release }},
		"nothing in a disk that is full": {"", func(b *stuckBench) func() {
			b.full.fail(store.ErrOutage)
			b.insert(5000)
			return func() { b.full.fail(nil) }
		}},
		"nothing in a source that is away": {"", func(b *stuckBench) func() {
			b.table.Fail(-1, errors.New("connection refused"))
			return func() { b.table.Fail(0, nil) }
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &stuckBench{bench: newBench(t), t: t}
				b.tick, b.opts.PollInterval = time.Minute, time.Second
				b.full = &faultyStore{Store: stuckStore{b.store, b}}
				b.store, b.hook = b.full, func(source.Query) error { b.reads.wait(); return nil }
				if what == "nothing until the next poll" {
					b.opts.PollInterval = time.Hour
				}
				if c.stick == nil {
					free := b.loads.begin()
					c.stick = func(*stuckBench) func() { return free }
				}
				b.insert(10)
				s, _ := b.run(t)
				still := func() time.Duration { return time.Since(s.Status().LastHeartbeat) }
				<-time.After(10 * time.Second)
				free := c.stick(b)
				<-time.After(10 * time.Minute)
				if got := still(); got > limit != (c.loop != "") || c.loop != "" && s.Status().Loop != c.loop {
					t.Errorf("the %s has stood still for %s, want %q", s.Status().Loop, got, c.loop)
				}
				if s := s.Status(); c.loop == "publisher" && (s.State != shard.Waiting || !strings.Contains(string(s.LastError), "checkpoint")) {
					t.Errorf("the shard is %s: %s", s.State, s.LastError)
				}
				free()
				<-time.After(10 * time.Second)
				if got := still(); got > limit {
					t.Errorf("afterwards the %s still stands, for %s", s.Status().Loop, got)
				}
			})
		})
	}
}
