package shard_test

import (
	"testing"

	"example.org/bridge/sink"
)

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
