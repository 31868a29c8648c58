package shard_test

import (
	"fmt"
	"testing"

	"bridge/internal/shard"
)

// TestTrafficOfAShard holds what a shard says of its traffic against what is on the bus.
func TestTrafficOfAShard(t *testing.T) {
	instantly(t, "rows, late ones and dead letters are counted once", func(t *testing.T) {
		b := newBench(t)
		b.insert(5)
		open := b.table.Open("late", old)
		b.insert(14)
		b.opts.DeadLetter = deadTopic
		b.bus.Reject(refuseRows(10, 12))
		s, stop := b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 20 && s.Status().Gaps.InFlight == 1 })
		b.table.Commit(open)
		eventually(t, "published late", func() bool { return b.count(topic) == 17 })
		b.polls(t, 2)
		got := s.Traffic()
		sum := uint32(0)
		for _, n := range got.Minutes {
			sum += n
		}
		if got.Rows != 17 || sum != 17 || got.Late != 1 || fmt.Sprint(got.DeadLetters) != "[{too large 3}]" || got.RowsPerSecond <= 0 {
			t.Errorf("%+v", got)
		}
		stop()
	})
	instantly(t, "a backlog begins where the shard was last drained", func(t *testing.T) {
		b := newBench(t)
		b.insert(10)
		s, stop := b.run(t)
		drained(t, s)
		eventually(t, "drained at 10", func() bool { return s.Traffic().Drained == 10 })
		if s.Status().Backlog {
			t.Error("one that is drained has a backlog")
		}
		release := b.bus.Pause(0)
		b.insert(30)
		eventually(t, "behind", func() bool { return s.Status().Backlog })
		if got := s.Traffic(); got.Drained != 10 {
			t.Errorf("began at %d", got.Drained)
		}
		release()
		drained(t, s)
		eventually(t, "drained at 40", func() bool { return s.Traffic().Drained == 40 && !s.Status().Backlog })
		stop()
	})
	instantly(t, "a stop has a cause, which ends with it", func(t *testing.T) {
		b := newBench(t)
		b.insert(3)
		b.bus.Reject(refuseRows(2, 2))
		s, stop := b.run(t)
		eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
		if got := s.Status().Cause; got != shard.CauseRefused {
			t.Errorf("cause %q", got)
		}
		stop()
		b.bus.Reject(nil)
		s, stop = b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 3 })
		if got := s.Status(); got.Cause != "" {
			t.Errorf("cause %q of one that runs", got.Cause)
		}
		stop()
	})
}
