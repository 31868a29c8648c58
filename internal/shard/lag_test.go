package shard_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/source"
	"bridge/source/ledger"
	sourcememory "bridge/source/sourcetest/memory"
)

// lagging polls the status until done, and fails the test if the shard says before that that
// nothing waits.
func lagging(t *testing.T, s *shard.Shard, what string, least time.Duration, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for range tick.C {
		status := s.Status()
		if done() {
			return
		}
		if !status.LagKnown || status.Lag < least {
			t.Fatalf("lag %s (known %v) while %s, want %s or more", status.Lag, status.LagKnown, what, least)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// readGate lets a test change a table between two reads.
type readGate struct {
	closed  sync.RWMutex
	waiting atomic.Int64
}

// pass is a hook before reads.
func (g *readGate) pass(source.Query) error {
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	g.closed.RLock()
	defer g.closed.RUnlock()
	return nil
}

// between calls change while the owner waits to read.
func (g *readGate) between(t *testing.T, change func()) {
	t.Helper()
	g.closed.Lock()
	defer g.closed.Unlock()
	eventually(t, "the owner waits to read", func() bool { return g.waiting.Load() > 0 })
	change()
}

func drained(t *testing.T, s *shard.Shard) {
	t.Helper()
	eventually(t, "drained", func() bool { status := s.Status(); return status.LagKnown && status.Lag == 0 })
}

// withoutCreated is a bench whose rows have no time of their own.
func withoutCreated(t *testing.T) *bench {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
	return b
}

// TestLagCounts goes through the ways in which committed rows wait.
func TestLagCounts(t *testing.T) {
	t.Run("a backlog without a CREATED from when it was first seen", func(t *testing.T) {
		b := withoutCreated(t)
		b.opts.BatchRows = 1
		for range 2000 {
			b.table.Insert("name")
		}
		s, _ := b.run(t)
		eventually(t, "begun", func() bool { return b.count(topic) > 0 })
		begun := time.Now()
		eventually(t, "half done", func() bool {
			// What was so before and after the look was so at the look.
			since, status := time.Since(begun), s.Status()
			n := b.count(topic)
			if since -= 50 * time.Millisecond; n < 1900 && status.Lag < since {
				t.Fatalf("lag %s after %s and %d rows", status.Lag, since, n)
			}
			return n >= 1900
		})
		drained(t, s)
	})
	t.Run("late rows that a limit cuts off, between the polls", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval = 30 * time.Millisecond
		var open []uint64
		for range 9000 {
			open = append(open, b.table.Open("late", old))
		}
		b.insert(1)
		var g readGate
		b.hook = g.pass
		s, _ := b.run(t)
		eventually(t, "in flight", func() bool { return s.Status().Gaps.InFlight == 9000 })
		g.between(t, func() {
			for _, id := range open {
				b.table.Commit(id)
			}
		})
		eventually(t, "a poll met more than it could read", func() bool { return s.Status().Lag >= 24*time.Hour || b.count(topic) > 8000 })
		lagging(t, s, "late rows wait", 24*time.Hour, func() bool { return b.count(topic) > 8000 })
		drained(t, s)
	})
	t.Run("rows that the hold policy keeps behind an open transaction", func(t *testing.T) {
		b := newBench(t)
		b.opts.GapPolicy = ledger.GapHold
		b.insert(1)
		open := b.table.Open("open", old)
		b.insert(3)
		s, _ := b.run(t)
		eventually(t, "begun", func() bool { return b.position(t) == 1 && s.Status().Gaps.InFlight == 1 })
		polls := b.table.Reads()
		lagging(t, s, "rows are held", 24*time.Hour, func() bool { return b.table.Reads() > polls+50 })
		b.table.Commit(open)
		drained(t, s)
	})
	t.Run("updates by their MODIFIED, not by the age of their row", func(t *testing.T) {
		b := newViewBench(t, true)
		b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Created: "created", Modified: "modified"},
			source.Column{Name: "id", Kind: source.Int},
			source.Column{Name: "name", Kind: source.Text},
			source.Column{Name: "value", Kind: source.Text},
			source.Column{Name: "created", Kind: source.DateTime, Precision: 6},
			source.Column{Name: "modified", Kind: source.DateTime, Precision: 6})
		b.table.Insert("a", "1", old, old)
		s, _ := b.run(t)
		eventually(t, "published", func() bool { return b.count(topic) == 1 })
		drained(t, s)
		release := b.bus.Pause(0)
		defer release()
		b.table.Update(1, "a", "2", old, now())
		eventually(t, "in flight", func() bool { return s.Status().Lag > 0 })
		b.polls(t, 20)
		if lag := s.Status().Lag; lag == 0 || lag > 20*time.Second {
			t.Errorf("lag %s of an update made just now", lag)
		}
	})
	t.Run("rows that are nominated and not read yet", func(t *testing.T) {
		b := newViewBench(t, false)
		b.table.Insert("a", "1", "0", "2020-01-01 00:00:00.000000")
		var block atomic.Bool
		entered, blocked := make(chan struct{}, 1), make(chan struct{})
		release := sync.OnceFunc(func() { close(blocked) })
		defer release()
		b.hook = func(q source.Query) error {
			if q.Ranges != nil && block.CompareAndSwap(true, false) {
				entered <- struct{}{}
				<-blocked
			}
			return nil
		}
		s, _ := b.run(t)
		eventually(t, "published", func() bool { return b.count(topic) == 1 })
		drained(t, s)
		b.table.Update(1, "a", "2", "0", "2020-01-01 00:00:00.000000")
		block.Store(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Nominate(context.Background(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}})
		}()
		<-entered
		first := s.Status()
		eventually(t, "grows", func() bool { status := s.Status(); return status.LagKnown && status.Lag > first.Lag })
		release()
		<-done
		drained(t, s)
	})
	t.Run("a row whose CREATED lies in the future from when it was first seen", func(t *testing.T) {
		b := newBench(t)
		b.opts.Window = time.Hour
		b.table.Insert("ahead", "2099-01-01 00:00:00.000000")
		s, _ := b.run(t)
		eventually(t, "grows", func() bool { return s.Status().Lag > 100*time.Millisecond })
	})
	// A row that counts as old shows that it waits by a lag that none of younger ones can cause.
	const younger = "2022-01-01 00:00:00.000000"
	older := func(s *shard.Shard) bool {
		status := s.Status()
		return status.LagKnown && time.Since(time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)) < status.Lag
	}
	t.Run("a row that does not fit while another such one is in flight", func(t *testing.T) {
		b := newBench(t)
		b.shared = true
		limits := shard.NewLimits(64<<10, 1, 4)
		b.opts.Limits, b.opts.BatchRows, b.opts.HeartbeatEvery = limits.Stream(), 1, 5*time.Millisecond
		blocked := make(chan struct{})
		unblock := sync.OnceFunc(func() { close(blocked) })
		var reads atomic.Int64
		b.hook = func(q source.Query) error {
			if q.After == 1 && b.table.Reads() > 0 && reads.Load() > 0 && reads.Add(1) > 2 {
				<-blocked
			}
			return nil
		}
		s, _ := b.run(t)
		defer unblock()
		drained(t, s)
		release := b.bus.Pause(0)
		defer release()
		large := strings.Repeat("x", 9000)
		b.table.Insert(large, younger)
		eventually(t, "the first waits for the bus", func() bool { return s.Status().Lag > 24*time.Hour })
		b.polls(t, 3)
		reads.Store(1)
		b.table.Insert(large, old)
		eventually(t, "the second does not fit", func() bool { return older(s) })
		release()
		b.saved(t, 1)
		if !older(s) {
			status := s.Status()
			t.Errorf("lag %s (known %v) while the second waits", status.Lag, status.LagKnown)
		}
		unblock()
		drained(t, s)
	})
}

func TestLagIsUnknown(t *testing.T) {
	unknown := func(t *testing.T, s *shard.Shard) {
		t.Helper()
		if status := s.Status(); status.LagKnown || status.Lag != 0 {
			t.Errorf("lag %s (known %v), want it unknown", status.Lag, status.LagKnown)
		}
	}
	t.Run("before the first poll", func(t *testing.T) {
		unknown(t, newBench(t).process(t).shard)
	})
	t.Run("of a stopped shard whose table is gone", func(t *testing.T) {
		b := newBench(t)
		b.insert(3)
		var gone atomic.Bool
		b.hook = func(source.Query) error {
			if gone.Load() {
				return fmt.Errorf("%w: items", source.ErrMissing)
			}
			return nil
		}
		s, _ := b.run(t)
		eventually(t, "published", func() bool { return b.count(topic) == 3 })
		drained(t, s)
		gone.Store(true)
		stopped(t, s)
		unknown(t, s)
	})
}
