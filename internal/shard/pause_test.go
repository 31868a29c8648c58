package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// setPause pauses the shard of a bench, or resumes it, as a command does.
func setPause(t testing.TB, b *bench, s *shard.Shard, on bool) {
	t.Helper()
	image, err := b.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := stream.SetPause{Stream: "items", Table: s.Status().Shard, On: on, Now: time.Now()}.Batch(&image)
	if err == nil {
		err = b.store.Apply(t.Context(), batch)
	}
	if err != nil {
		t.Fatal(err)
	}
	since := time.Time{}
	if on {
		since = time.Now()
	}
	s.SetPaused(since)
}

// paused waits until a shard rests.
func paused(t testing.TB, s *shard.Shard) {
	t.Helper()
	eventually(t, "paused", func() bool { return s.Status().State == shard.Paused })
}

func TestPause(t *testing.T) {
	t.Run("what is in flight is published and committed, then nothing is read, and nothing is repeated", func(t *testing.T) {
		b := newBench(t)
		b.insert(1000)
		release := b.bus.Pause(450)
		s, stop := b.run(t)
		eventually(t, "the bus stands still", func() bool { return b.count(topic) == 450 })
		setPause(t, b, s, true)
		if status := s.Status(); status.State == shard.Paused || status.PausedAt.IsZero() {
			t.Errorf("with a batch in flight it is %s since %v", status.State, status.PausedAt)
		}
		release()
		paused(t, s)
		stored := b.count(topic)
		if got := b.position(t); got != uint64(stored) || stored < 450 || stored > 600 {
			t.Errorf("%d rows are on the bus, the position is %d", stored, got)
		}
		reads := b.table.Reads()
		wait(t, 50*time.Millisecond)
		if status := s.Status(); b.table.Reads() != reads || b.count(topic) != stored || status.LagSeconds != nil {
			t.Errorf("%d reads and %d messages while it is paused, its lag is %v", b.table.Reads()-reads, b.count(topic)-stored, status.LagSeconds)
		}
		if _, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}}); err == nil {
			t.Error("it takes a nomination")
		}
		stop()
		s, _ = b.run(t)
		paused(t, s)
		setPause(t, b, s, false)
		b.saved(t, 1000)
		expectRun(t, b.ids(topic), 1, 1000)
	})
	instantly(t, "an idle shard is paused at once, and stops for another process", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.tick = 30*time.Minute, 10*time.Second
		b.insert(3)
		s, _ := b.run(t)
		later(t, "the rows are there", func() bool { return b.count(topic) == 3 })
		waitIdle(t, s)
		began := time.Now()
		setPause(t, b, s, true)
		paused(t, s)
		s.Stop(errors.New("another bridge"))
		stopped(t, s)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("after %s", took)
		}
	})
	instantly(t, "gaps do not age", func(t *testing.T) {
		b := newBench(t)
		b.opts.GapTTL, b.opts.PollInterval, b.tick = time.Hour, 10*time.Second, time.Minute
		b.insert(2)
		b.table.InsertAt(10, "n", old)
		s, _ := b.run(t)
		b.saved(t, 10)
		setPause(t, b, s, true)
		paused(t, s)
		wait(t, 3*time.Hour)
		setPause(t, b, s, false)
		wait(t, 30*time.Minute)
		b.table.InsertAt(5, "late", old)
		wait(t, 10*time.Minute)
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 10, 5}) {
			t.Errorf("got rows %v", got)
		}
	})
}

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
