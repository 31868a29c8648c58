package shard_test

import (
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	sourcememory "example.org/bridge/source/sourcetest/memory"
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
		if status.LagSeconds == nil || lagOf(status) < least {
			t.Fatalf("lag %s (known %v) while %s, want %s or more", lagOf(status), status.LagSeconds != nil, what, least)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// lagOf returns the lag of a shard, 0 where it is not known.
func lagOf(s shard.Status) time.Duration {
	if s.LagSeconds == nil {
		return 0
	}
	return time.Duration(*s.LagSeconds * float64(time.Second))
}

func drained(t *testing.T, s *shard.Shard) {
	t.Helper()
	eventually(t, "drained", func() bool { status := s.Status(); return status.LagSeconds != nil && lagOf(status) == 0 })
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
		for range 1000 {
			b.table.Insert("name")
		}
		s, _ := b.run(t)
		eventually(t, "begun", func() bool { return b.count(topic) > 0 })
		begun := time.Now()
		eventually(t, "half done", func() bool {
			// What was so before and after the look was so at the look.
			since, status := time.Since(begun), s.Status()
			n := b.count(topic)
			if since -= 50 * time.Millisecond; n < 950 && lagOf(status) < since {
				t.Fatalf("lag %s after %s and %d rows", lagOf(status), since, n)
			}
			return n >= 950
		})
		drained(t, s)
	})
	t.Run("late rows that a limit cuts off, between the polls", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval = 30 * time.Millisecond
		var open []uint64
		for range 5000 {
			open = append(open, b.table.Open("late", old))
		}
		b.insert(1)
		var g gate
		b.hook = g.pass
		s, _ := b.run(t)
		eventually(t, "in flight", func() bool { return s.Status().Gaps.InFlight == 5000 })
		g.between(func() {
			for _, id := range open {
				b.table.Commit(id)
			}
		})
		eventually(t, "a poll met more than it could read", func() bool { return lagOf(s.Status()) >= 24*time.Hour || b.count(topic) > 4500 })
		lagging(t, s, "late rows wait", 24*time.Hour, func() bool { return b.count(topic) > 4500 })
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
		eventually(t, "in flight", func() bool { return lagOf(s.Status()) > 0 })
		wait(t, 20*b.opts.PollInterval)
		if lag := lagOf(s.Status()); lag == 0 || lag > 20*time.Second {
			t.Errorf("lag %s of an update made just now", lag)
		}
	})
	t.Run("a row whose CREATED lies in the future from when it was first seen", func(t *testing.T) {
		b := newBench(t)
		b.opts.Window = time.Hour
		b.table.Insert("ahead", "2099-01-01 00:00:00.000000")
		s, _ := b.run(t)
		eventually(t, "grows", func() bool { return lagOf(s.Status()) > 100*time.Millisecond })
	})
}

// TestLagIsUnknown before the first poll, and of a stopped shard whose table is gone.
func TestLagIsUnknown(t *testing.T) {
	b := newBench(t)
	b.insert(3)
	if status := b.process(t).shard.Status(); status.LagSeconds != nil || lagOf(status) != 0 {
		t.Errorf("lag %s (known %v) before the first poll", lagOf(status), status.LagSeconds != nil)
	}
	s, _ := b.run(t)
	b.saved(t, 3)
	drained(t, s)
	b.table.Fail(-1, source.ErrMissing)
	stopped(t, s)
	if status := s.Status(); status.LagSeconds != nil || lagOf(status) != 0 {
		t.Errorf("lag %s (known %v) of a table that is gone", lagOf(status), status.LagSeconds != nil)
	}
}
