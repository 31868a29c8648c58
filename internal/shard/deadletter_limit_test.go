package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/sink"
)

// refuseRows refuses the events of rows from first to last.
func refuseRows(first, last uint64) func(*sink.Message) string {
	return func(m *sink.Message) string {
		if m.Destination == topic && m.RowID >= first && m.RowID <= last {
			return "too large"
		}
		return ""
	}
}

func TestTheLimitOfDeadLetters(t *testing.T) {
	for _, kind := range []string{"release", "capability"} {
		t.Run("a "+kind+" shard stops at it, and each restart goes on with the row that was refused", func(t *testing.T) {
			b := newBench(t)
			row := func(int) { b.insert(1) }
			if kind == "capability" {
				b = newViewBench(t, false)
				row = func(i int) { b.table.Insert(fmt.Sprint("e", i), "1", "0") }
			}
			for i := range 300 {
				row(i)
			}
			b.opts.DeadLetter, b.opts.BatchRows = deadTopic, 1000
			b.bus.Reject(refuseRows(101, 250))
			run := func() (s *shard.Shard, stop func()) {
				b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 100)
				return b.run(t)
			}
			s, stop := run()
			eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
			stop()
			for _, want := range []string{"more than 100 rows of stream items", "row 201 of items", "too large", "DEAD_LETTER_LIMIT", "restart"} {
				if got := s.Status().LastError; !strings.Contains(got, want) {
					t.Errorf("the last error lacks %q: %s", want, got)
				}
			}
			expectRun(t, b.ids(deadTopic), 101, 200)
			// Invariant 1: nothing moves past the row.
			if got := b.position(t); got > 200 {
				t.Errorf("position %d, want 200 at most", got)
			}
			_, stop = run()
			eventually(t, "drained", func() bool { return b.position(t) == 300 })
			stop()
			expectRun(t, b.ids(deadTopic), 101, 250)
			if got := b.ids(topic); len(got) != 150 || !slices.IsSorted(got) {
				t.Errorf("%d events of the other rows: %s", len(got), short(got))
			}
		})
	}

	t.Run("rows are counted within a minute, and once", func(t *testing.T) {
		l := shard.NewDeadLetterLimit("items", 2)
		start := time.Unix(1000, 0)
		for _, c := range []struct {
			row   uint64
			after time.Duration
			full  bool
		}{
			{1, 0, false},
			{1, time.Second, false},
			{2, 2 * time.Second, false},
			{1, 3 * time.Second, false},
			{3, time.Minute, false},
			{4, time.Minute + time.Second, true},
			{5, time.Hour, true},
		} {
			if err := l.Count(c.row, start.Add(c.after)); (err != nil) != c.full {
				t.Errorf("row %d after %s: %v", c.row, c.after, err)
			}
		}
	})

}
