package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// setPause pauses the shard of a bench, or resumes it, as a command does.
func setPause(t testing.TB, b *bench, s *shard.Shard, on bool) {
	t.Helper()
	image := must.Get(b.store.Load(t.Context()))(t)
	batch, err := stream.SetPause{Stream: "items", Table: s.Status().Shard, On: on, Now: time.Now()}.Batch(&image)
	if err == nil {
		err = b.store.Apply(t.Context(), batch)
	}
	must.OK(t, err)
	since := time.Time{}
	if on {
		since = time.Now()
	}
	s.SetPaused(since)
}

func TestPause(t *testing.T) {
	rowScripts(t, map[string]string{
		"what is in flight is published, then nothing is read, and nothing is repeated": `
			insert 1000; hold 450; run; count 450; pause; free; paused; wait 50ms; position 500 600; nominate-fails 1-1; stop; run; paused; resume; saved 1000; ids 1-1000`,
		"an idle shard is paused at once, and stops for another process": `
			poll-every 30m; look 10s; insert 3; run; count-later 3; idle; moment; pause; paused; stop-for-good; stopped; soon`,
		"gaps do not age": `
			ttl 1h; poll-every 10s; look 1m; insert 2; at 10 n old; run; saved 10; pause; paused; wait 3h; resume;
			wait 30m; at 5 late old; wait 10m; ids 1-2 10 5`,
	})
	t.Run("how far it lags is not known", func(t *testing.T) {
		if lag := newBench(t).play(t, "insert 1000; hold 450; run; count 450; pause; free; paused").shard.Status().LagSeconds; lag != nil {
			t.Errorf("it lags %v s", *lag)
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
	// tps are looks for topics, late has events go to a topic that was not there before; slow has
	// the source fail to tell traits, after a while.
	tps        hang
	late, slow atomic.Bool
}

const lateTopic = "late"

type stuckReader struct {
	sink.Reader
	b *stuckBench
}

func (r stuckReader) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	r.b.tps.wait()
	return r.Reader.TPs(ctx, destinations)
}

type stuckSource struct {
	source.Shard
	b *stuckBench
}

func (s stuckSource) Traits(ctx context.Context) (source.Traits, error) {
	if s.b.slow.Load() {
		wait(s.b.t, 100*time.Second)
		return source.Traits{}, errAway
	}
	return s.Shard.Traits(ctx)
}

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
		"nothing in a bus that does not tell of a topic": {"", func(b *stuckBench) func() {
			free := b.tps.begin()
			b.bus.Create(lateTopic)
			b.late.Store(true)
			b.insert(10)
			return free
		}},
		"nothing in a source that is slow to tell of its server": {"", func(b *stuckBench) func() {
			b.slow.Store(true)
			b.table.Move("second", false)
			return func() { b.slow.Store(false) }
		}},
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
				b.source, b.reader = stuckSource{b.table, b}, stuckReader{b.bus, b}
				b.destinations = append(b.destinations, lateTopic)
				b.opts.Route = func(*event.Event) string { return map[bool]string{true: lateTopic, false: topic}[b.late.Load()] }
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
	listener := must.Get(b.opts.Tap.Listen("items"))(t)
	other := must.Get(b.opts.Tap.Listen("other"))(t)
	s := b.play(t, "run")
	var got []*tap.Event
	more := func(want int) {
		t.Helper()
		eventually(t, "events are shown", func() bool {
			events, left := listener.Drain()
			got = append(got, events...)
			return left == 0 && len(got) >= want
		})
	}
	s.play("hold 0; row a 1 0 now")
	eventually(t, "a batch is handed to the bus", func() bool { return b.bus.Publishes() > 0 })
	if events, _ := listener.Drain(); len(events) > 0 {
		t.Error("an event is shown that the bus has not acknowledged")
	}
	for i, steps := range []string{"free", "refuse refused; row b refused 0 now", "replace a 1 1 now", "row c 3 0 now"} {
		s.play(steps)
		more(i + 1)
	}

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
		s := newBench(t).play(t, `
			dead-letters; insert 5; begin late old; insert 14; refuse 10 12; run; saved 20; flying 1; commit; count 17; polls 2`)
		got := s.shard.FullStatus().Traffic
		sum := uint32(0)
		for _, n := range got.Published.LastHour {
			sum += n
		}
		if p := got.Published; p.Rows != 17 || sum != 17 || got.Late != 1 || fmt.Sprint(got.DeadLetters) != "{3 [{too large 3}]}" || p.RowsPerSecond <= 0 {
			t.Errorf("%+v", got)
		}
	})
	instantly(t, "the time that a jump of ids takes is bounded", func(t *testing.T) {
		b, log := newBench(t), new(lines)
		b.opts.Logger, b.opts.BatchRows = slog.New(slog.NewTextHandler(log, nil)), 1
		b.hook = func(source.Query) error { wait(t, 6*time.Second); return nil }
		b.play(t, "insert 9; at 7000000000000000000 high; run; count 9")
		if log.count("left=277777h46m40s") == 0 {
			t.Errorf("the log:\n%s", &log.b)
		}
	})
	instantly(t, "a backlog begins where the shard was last drained", func(t *testing.T) {
		s := newBench(t).play(t, "insert 10; run; drained; polls 2")
		backlog := func() *shard.Backlog { return s.shard.FullStatus().Backlog }
		if backlog() != nil {
			t.Error("one that is drained has a backlog")
		}
		s.play("hold 0; insert 30")
		eventually(t, "behind", func() bool { return backlog() != nil })
		if got := backlog(); got.IDs != 30 || got.Percent != 0 {
			t.Errorf("it did not begin at 10: %+v", got)
		}
		s.play("free; drained")
		eventually(t, "drained at 40", func() bool { return backlog() == nil })
	})
}

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

func drained(t testing.TB, s *shard.Shard) {
	t.Helper()
	eventually(t, "drained", func() bool { status := s.Status(); return status.LagSeconds != nil && lagOf(status) == 0 })
}

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
		s := b.play(t, "insert 1; begin open old; insert 3; run; saved 1; flying 1")
		polls := b.table.Reads()
		lagging(t, s.shard, "rows are held", 24*time.Hour, func() bool { return b.table.Reads() > polls+50 })
		s.play("commit; drained")
	})
	t.Run("updates by their MODIFIED, not by the age of their row", func(t *testing.T) {
		b := newViewBench(t, true)
		b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Created: "created", Modified: "modified"},
			source.Column{Name: "id", Kind: source.Int},
			source.Column{Name: "name", Kind: source.Text},
			source.Column{Name: "value", Kind: source.Text},
			source.Column{Name: "created", Kind: source.DateTime, Precision: 6},
			source.Column{Name: "modified", Kind: source.DateTime, Precision: 6})
		s := b.play(t, "row a 1 old old; run; count 1; drained; hold 0; update 1 a 2 old now")
		defer s.free()
		eventually(t, "in flight", func() bool { return lagOf(s.shard.Status()) > 0 })
		wait(t, 20*b.opts.PollInterval)
		if lag := lagOf(s.shard.Status()); lag == 0 || lag > 20*time.Second {
			t.Errorf("lag %s of an update made just now", lag)
		}
	})
	t.Run("a row whose CREATED lies in the future from when it was first seen", func(t *testing.T) {
		s := newBench(t).play(t, "window 1h; row ahead ago=-20000h; run")
		eventually(t, "grows", func() bool { return lagOf(s.shard.Status()) > 100*time.Millisecond })
	})
}

// TestLagIsUnknown before the first poll, and of a stopped shard whose table is gone.
func TestLagIsUnknown(t *testing.T) {
	b := newBench(t)
	b.insert(3)
	if status := b.process(t).shard.Status(); status.LagSeconds != nil || lagOf(status) != 0 {
		t.Errorf("lag %s (known %v) before the first poll", lagOf(status), status.LagSeconds != nil)
	}
	s := b.play(t, "run; saved 3; drained; missing; stopped").shard
	if status := s.Status(); status.LagSeconds != nil || lagOf(status) != 0 {
		t.Errorf("lag %s (known %v) of a table that is gone", lagOf(status), status.LagSeconds != nil)
	}
}
