package shard_test

import (
	"bytes"
	"fmt"
	"testing"

	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
	"example.org/bridge/sink"
)

// TestWhatIsAcknowledgedIsShown to those who listen, as it was published, and nothing before.
func TestWhatIsAcknowledgedIsShown(t *testing.T) {
	b := newViewBench(t, true)
	b.bus.Create(deadTopic)
	b.opts.Tap, b.opts.Timed, b.opts.DeadLetter = new(tap.Tap), true, deadTopic
	b.opts.Tombstones = shard.NewTombstones(nil, b.opts.Logger)
	listener, err := b.opts.Tap.Listen("items")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.opts.Tap.Listen("other")
	if err != nil {
		t.Fatal(err)
	}
	b.run(t)
	var got []*tap.Event
	more := func(want int) {
		t.Helper()
		eventually(t, "events are shown", func() bool {
			events, left := listener.Drain()
			got = append(got, events...)
			return left == 0 && len(got) >= want
		})
	}
	release := b.bus.Pause(0)
	b.table.Insert("a", "1", "0", now())
	eventually(t, "a batch is handed to the bus", func() bool { return b.bus.Publishes() > 0 })
	if events, _ := listener.Drain(); len(events) > 0 {
		t.Error("an event is shown that the bus has not acknowledged")
	}
	release()
	more(1)
	b.bus.Reject(func(m *sink.Message) string {
		if bytes.Contains(m.Value, []byte("refused")) && m.Destination == topic {
			return "too large"
		}
		return ""
	})
	b.table.Insert("b", "refused", "0", now())
	more(2)
	b.table.Replace("a", "1", "1", now())
	more(3)
	b.table.Insert("c", "3", "0", now())
	more(4)

	var events []sink.Message
	for _, m := range b.bus.Messages(topic) {
		if m.Value != nil {
			events = append(events, m)
		}
	}
	if len(got) != 4 || len(events) != 3 || !got[1].DeadLetter || string(got[1].Message.Key) != "b" {
		t.Fatalf("%d are shown, %d on the bus, the second %+v", len(got), len(events), got[1])
	}
	for i, e := range append(got[:1:1], got[2:]...) {
		m := &events[i]
		if !bytes.Equal(e.Message.Value, m.Value) || !bytes.Equal(e.Message.Key, m.Key) || e.Message.ID != m.ID || e.Message.Type != m.Type || e.Message.Origin != m.Origin || e.DeadLetter {
			t.Errorf("shown %s, published %s", e.Message.Value, m.Value)
		}
		if born, ok := e.Born(); !ok || e.Delay(born) > e.Acknowledged.Sub(born) {
			t.Errorf("the delay of %s is not known", e.Message.Value)
		}
	}
	if events, _ := other.Drain(); len(events) > 0 {
		t.Error("an event is shown to those who listen to another stream")
	}
}

// TestTrafficOfAShard holds what a shard says of its traffic against what is on the bus.
func TestTrafficOfAShard(t *testing.T) {
	instantly(t, "rows, late ones and dead letters are counted once", func(t *testing.T) {
		b := newBench(t)
		b.insert(5)
		open := b.table.Open("late", old)
		b.insert(14)
		b.opts.DeadLetter = deadTopic
		b.bus.Reject(refuseRows(10, 12))
		s, _ := b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 20 && s.Status().Gaps.InFlight == 1 })
		b.table.Commit(open)
		eventually(t, "published late", func() bool { return b.count(topic) == 17 })
		b.polls(t, 2)
		got := s.FullStatus().Traffic
		sum := uint32(0)
		for _, n := range got.Published.LastHour {
			sum += n
		}
		if p := got.Published; p.Rows != 17 || sum != 17 || got.Late != 1 || fmt.Sprint(got.DeadLetters) != "{3 [{too large 3}]}" || p.RowsPerSecond <= 0 {
			t.Errorf("%+v", got)
		}
	})
	instantly(t, "a backlog begins where the shard was last drained", func(t *testing.T) {
		b := newBench(t)
		b.insert(10)
		s, _ := b.run(t)
		drained(t, s)
		b.polls(t, 2)
		if s.FullStatus().Backlog != nil {
			t.Error("one that is drained has a backlog")
		}
		release := b.bus.Pause(0)
		b.insert(30)
		eventually(t, "behind", func() bool { return s.FullStatus().Backlog != nil })
		if got := s.FullStatus().Backlog; got.IDs != 30 || got.Percent != 0 {
			t.Errorf("it did not begin at 10: %+v", got)
		}
		release()
		drained(t, s)
		eventually(t, "drained at 40", func() bool { return s.FullStatus().Backlog == nil })
	})
}
