package shard_test

import (
	"slices"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/sink"
	"bridge/source"
)

// old is a CREATED that no window holds back.
const old = "2020-01-01 00:00:00.000000"

// polls waits until the table was read n more times.
func (b *bench) polls(t testing.TB, n int) {
	t.Helper()
	from := b.table.Reads()
	eventually(t, "polled on", func() bool { return b.table.Reads() > from+n })
}

func TestLateRows(t *testing.T) {
	instantly(t, "a row that commits after higher ids were published is published late, and once", func(t *testing.T) {
		b := newBench(t)
		b.insert(5)
		open := b.table.Open("late", old)
		b.insert(5)
		s, stop := b.run(t)
		eventually(t, "saved", func() bool { return b.position(t) == 11 })
		eventually(t, "seen in flight", func() bool { return s.Status().Gaps.InFlight == 1 })
		b.polls(t, 5)
		if got := b.count(topic); got != 10 {
			t.Fatalf("%d rows, want the 10 that are committed", got)
		}
		b.table.Commit(open)
		eventually(t, "published late", func() bool { return b.count(topic) == 11 })
		b.polls(t, 5)
		stop()
		messages := b.bus.Messages(topic)
		last := messages[len(messages)-1]
		if len(messages) != 11 || last.RowID != open || last.Origin != sink.FromLate {
			t.Errorf("%d messages, the last is row %d from %q", len(messages), last.RowID, last.Origin)
		}
	})
	instantly(t, "a gap outlives a restart, and a late row whose acknowledgement was lost is read back", func(t *testing.T) {
		b := newBench(t)
		b.insert(2)
		b.table.InsertAt(10, "n", old)
		_, stop := b.run(t)
		eventually(t, "saved", func() bool { return b.position(t) == 10 })
		stop()
		b.table.InsertAt(5, "late")
		killed := *b
		killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
		_, stop = killed.run(t)
		eventually(t, "published late", func() bool { return slices.Contains(b.ids(topic), 5) })
		stop()
		s, stop := b.run(t)
		eventually(t, "running", func() bool { return s.Status().State == shard.Running })
		b.polls(t, 5)
		stop()
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 10, 5}) {
			t.Errorf("got rows %v", got)
		}
	})
}

func TestIDsWithoutOrderAreNotTailed(t *testing.T) {
	b := newBench(t)
	b.opts.IDOrder = source.OrderNone
	b.insert(5)
	s, _ := b.run(t)
	eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
	if got := b.ids(topic); len(got) > 0 {
		t.Errorf("published %v", got)
	}
}
