package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/shard"
	"bridge/source"
)

// stuckStore is a store whose disk hangs once stuck is closed, until free is.
type stuckStore struct {
	store.Store
	stuck, free chan struct{}
}

func (s stuckStore) hang() {
	select {
	case <-s.stuck:
		<-s.free
	default:
	}
}

func (s stuckStore) Apply(ctx context.Context, b *store.Batch) error {
	s.hang()
	return s.Store.Apply(ctx, b)
}

// loadedLate is a store whose progress cannot be read until free is closed.
type loadedLate struct {
	store.Store
	free chan struct{}
}

func (s loadedLate) Progress(ctx context.Context, key store.Key) (store.Progress, bool, error) {
	<-s.free
	return s.Store.Progress(ctx, key)
}

func TestALoopThatStandsStillShows(t *testing.T) {
	const limit = time.Minute
	still := func(s *shard.Shard) time.Duration { return time.Since(s.Status().LastHeartbeat) }
	for what, c := range map[string]struct {
		// loop is the one that stands still, empty for none; stick makes it do so and returns how
		// that ends.
		loop  string
		stick func(b *stuckBench) (free func())
	}{
		"a save that hangs, while the bus answers": {"publisher", func(b *stuckBench) func() { free := b.hangStore(); b.insert(10); return free }},
		"a read that hangs":                        {"owner", func(b *stuckBench) func() { return b.hangReads() }},
		"a read that hangs while the bus is away": {"owner", func(b *stuckBench) func() {
			release := b.bus.Pause(0)
			b.insert(10)
			synctest.Wait()
			wait(b.t, 5*time.Second)
			free := b.hangReads()
			return func() { release(); free() }
		}},
		"nothing in a quiet table":      {"", func(*stuckBench) func() { return func() {} }},
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
				b := newStuckBench(t)
				b.opts.PollInterval = time.Second
				b.insert(10)
				s, _ := b.run(t)
				<-time.After(10 * time.Second)
				free := c.stick(b)
				<-time.After(10 * time.Minute)
				if got := still(s); got > limit != (c.loop != "") || c.loop != "" && s.Status().Loop != c.loop {
					t.Errorf("the %s has stood still for %s, want %q", s.Status().Loop, got, c.loop)
				}
				if s := s.Status(); c.loop == "publisher" && (s.State != shard.Waiting || !strings.Contains(s.LastError, "checkpoint")) {
					t.Errorf("the shard is %s: %s", s.State, s.LastError)
				}
				free()
				<-time.After(10 * time.Second)
				if got := still(s); got > limit {
					t.Errorf("afterwards the %s still stands, for %s", s.Status().Loop, got)
				}
			})
		})
	}
	t.Run("not one that has nothing to do until the next poll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStuckBench(t)
			b.opts.PollInterval = time.Hour
			s, _ := b.run(t)
			for range 5 * 60 {
				<-time.After(time.Minute)
				if got := still(s); got > limit/2 {
					t.Fatalf("the %s has stood still for %s", s.Status().Loop, got)
				}
			}
		})
	})
	t.Run("a checkpoint that cannot be loaded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			late := loadedLate{b.store, make(chan struct{})}
			b.store = late
			s, _ := b.run(t)
			<-time.After(2 * limit)
			if got := still(s); got < limit || s.Status().Loop != "owner" {
				t.Errorf("the %s has stood still for %s", s.Status().Loop, got)
			}
			close(late.free)
		})
	})
}

// stuckBench is a bench whose disk and whose reads may be made to hang.
type stuckBench struct {
	*bench
	t    testing.TB
	disk stuckStore
	full *faultyStore
	hung atomic.Pointer[chan struct{}]
}

func newStuckBench(t *testing.T) *stuckBench {
	b := &stuckBench{bench: newBench(t), t: t}
	b.disk = stuckStore{b.store, make(chan struct{}), make(chan struct{})}
	b.tick = time.Minute
	b.full = &faultyStore{Store: b.disk}
	b.store, b.hook = b.full, b.waitHung
	return b
}

// hangStore makes the disk of the checkpoint hang from then on.
func (b *stuckBench) hangStore() (free func()) {
	close(b.disk.stuck)
	return func() { close(b.disk.free) }
}

// hangReads makes reads of rows hang from then on.
func (b *stuckBench) hangReads() (free func()) {
	wait := make(chan struct{})
	b.hung.Store(&wait)
	return func() { b.hung.Store(nil); close(wait) }
}

func (b *stuckBench) waitHung(source.Query) error {
	if wait := b.hung.Load(); wait != nil {
		<-*wait
	}
	return nil
}
