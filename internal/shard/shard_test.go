package shard_test

import (
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
)

// TestStart begins behind an id.
func TestStart(t *testing.T) {
	b := newBench(t)
	b.opts.Start = shard.Start{After: 40}
	b.insert(50)
	b.runTo(t, 50)
	expectRun(t, b.ids(topic), 41, 50)
}

func TestRejectedMessages(t *testing.T) {
	t.Run("without a dead-letter destination the shard stops before the row, and a restart goes on there without a repeat", func(t *testing.T) {
		b := newBench(t)
		b.insert(250)
		b.bus.Reject(refuseRows(150, 150))
		s, stop := b.run(t)
		stopped(t, s)
		stop()
		expectRun(t, b.ids(topic), 1, 149)
		// What the bus has of the batch may have been read back.
		if got := b.position(t); got != 100 && got != 149 {
			t.Errorf("position %d, want that of the batch before or of the row before", got)
		}
		expectText(t, s.Status().LastError, "row 150", "too large", "DEAD_LETTER")
		b.bus.Reject(nil)
		b.runTo(t, 250)
		expectRun(t, b.ids(topic), 1, 250)
	})
	t.Run("a dead letter that is refused too stops the shard", func(t *testing.T) {
		b := newBench(t)
		b.opts.DeadLetter = deadTopic
		b.insert(10)
		b.bus.Reject(func(m *sink.Message) string {
			if m.RowID == 5 {
				return "no"
			}
			return ""
		})
		s, _ := b.run(t)
		stopped(t, s)
		if got := b.position(t); got != 0 && got != 4 {
			t.Errorf("position %d, want 0, or 4 where that was read back", got)
		}
	})
}

func TestStabilityWindow(t *testing.T) {
	instantly(t, "a young row is published when the window has passed", func(t *testing.T) {
		b := newBench(t)
		b.opts.Window = 200 * time.Millisecond
		started := time.Now()
		b.table.Insert("young", started.UTC().Format("2006-01-02 15:04:05.000000"))
		s, _ := b.run(t)
		b.saved(t, 1)
		if took := time.Since(started); took < b.opts.Window {
			t.Errorf("published after %s", took)
		}
		eventually(t, "drained", func() bool { return lagOf(s.Status()) == 0 })
	})
}

// TestCrash kills a run with so many messages of a batch on the bus. What follows must repeat with
// the same ids, lose nothing, and repeat no message that catch-up could read.
func TestCrash(t *testing.T) {
	const rows = 1500
	b := newBench(t)
	b.insert(rows)
	for _, held := range []int{0, 1, 99, 100, 101, 250} {
		release := b.bus.Pause(held)
		crashed := *b
		mortal := &faultyStore{Store: b.store}
		crashed.store = mortal
		crashed.opts.ShutdownTimeout = time.Millisecond
		before := b.count(topic)
		_, stop := crashed.run(t)
		eventually(t, "in flight", func() bool { return b.count(topic) == before+held })
		mortal.fail(errDead)
		stop()
		release()
	}
	b.runTo(t, rows)
	expectRun(t, b.ids(topic), 1, rows)
}
