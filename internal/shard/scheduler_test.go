package shard_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// later waits for a condition for hours, which cost nothing.
func later(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); wait(t, time.Minute) {
		if time.Since(began) > 5*time.Hour {
			t.Fatalf("not within five hours: %s", what)
		}
	}
}

// waitIdle waits until the shard is idle.
func waitIdle(t *testing.T, s *shard.Shard) {
	t.Helper()
	later(t, "the shard is idle", func() bool { synctest.Wait(); return s.Idle() })
}

// TestAnIdleShard is one whose next poll is an hour away: what happens before, something else has
// caused.
func TestAnIdleShard(t *testing.T) {
	slow := func(t *testing.T) (b *bench, s *shard.Shard, stop func()) {
		b = newBench(t)
		b.opts.PollInterval, b.tick = 30*time.Minute, 10*time.Second
		b.insert(3)
		s, stop = b.run(t)
		later(t, "the rows are there", func() bool { return b.count(topic) == 3 })
		waitIdle(t, s)
		return b, s, stop
	}
	soon := func(t *testing.T, do func()) {
		t.Helper()
		began := time.Now()
		do()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("after %s", took)
		}
	}
	instantly(t, "publishes what is nominated at once", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.PollInterval, b.tick = 30*time.Minute, 10*time.Second
		row := b.table.Insert("a", "1", "0")
		s, _ := b.run(t)
		later(t, "the row is there", func() bool { return b.count(topic) == 1 })
		waitIdle(t, s)
		b.table.Delete(row)
		soon(t, func() {
			if v, err := s.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity("a")}}); err != nil || v.Deleted != 1 {
				t.Errorf("%+v, %v", v, err)
			}
		})
		b.expectSaid(t, "Added a=1", "Deleted a")
		waitIdle(t, s)
	})
	instantly(t, "is stopped at once", func(t *testing.T) {
		_, s, stop := slow(t)
		defer stop()
		soon(t, func() {
			s.Stop(errors.New("another bridge"))
			stopped(t, s)
		})
	})
	instantly(t, "ends at once, and another process goes on", func(t *testing.T) {
		b, s, stop := slow(t)
		soon(t, stop)
		if s.Idle() {
			t.Error("it is idle behind its end")
		}
		if _, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}}); err == nil {
			t.Error("it takes nominations behind its end")
		}
		b.insert(1)
		b.opts.PollInterval = time.Millisecond
		_, stop = b.run(t)
		defer stop()
		eventually(t, "the row is there", func() bool { return b.count(topic) == 4 })
		expectRun(t, b.ids(topic), 1, 4)
	})
	instantly(t, "finds late rows, sees its table go, and come back", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.tick = time.Second, time.Second
		b.insert(1)
		open := b.table.Open("name", "2020-01-01 00:00:00.000000")
		b.insert(1)
		s, _ := b.run(t)
		eventually(t, "two rows are there", func() bool { return b.count(topic) == 2 })
		// The id in flight is polled, so the shard is not idle.
		wait(t, 20*time.Second)
		if s.Idle() {
			t.Error("a shard with a hot gap is idle")
		}
		b.table.Commit(open)
		eventually(t, "the late row is there", func() bool { return b.count(topic) == 3 })
		waitIdle(t, s)
		b.table.Fail(1, source.ErrMissing)
		eventually(t, "it stops", func() bool { return s.Status().State == shard.Stopped })
		b.insert(1)
		eventually(t, "it goes on", func() bool { return b.count(topic) == 4 })
		waitIdle(t, s)
		b.table.Truncate()
		b.insert(1)
		eventually(t, "ids are used again", func() bool { return s.Status().Cause == shard.CauseIDsReused })
	})
	instantly(t, "is idle though a poll takes longer than it is to the next", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.pollsPerSecond = 50*time.Millisecond, 1
		b.insert(1)
		s, _ := b.runHooked(t, func(source.Query) error { wait(t, 300*time.Millisecond); return nil })
		eventually(t, "it is idle", func() bool { wait(t, 70*time.Millisecond); return s.Idle() })
	})
	instantly(t, "is idle behind a publish of unknown outcome", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.tick = time.Second, time.Second
		sk := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
		close(sk.gate)
		b.sink = sk
		b.insert(3)
		s, _ := b.run(t)
		later(t, "it is idle and says that all is well", func() bool {
			status := s.Status()
			return s.Idle() && b.position(t) == 3 && status.State == shard.Running && status.LagSeconds != nil && lagOf(status) == 0
		})
		if n := b.count(topic); n != 3 {
			t.Errorf("%d messages", n)
		}
	})
	instantly(t, "is not idle while its bus is away", func(t *testing.T) {
		b, s, stop := slow(t)
		defer stop()
		release := b.bus.Pause(0)
		b.insert(1)
		wait(t, 4*time.Hour)
		if s.Idle() || b.count(topic) != 3 {
			t.Error("it is idle with a batch in flight")
		}
		release()
		later(t, "the row is there", func() bool { return b.count(topic) == 4 })
		waitIdle(t, s)
	})
}

// headReading is a source that says cheaply that there is nothing new.
type headReading struct {
	source.Shard
	// blind says that heads see nothing; held, when not nil, keeps them from being answered.
	blind        bool
	held         chan struct{}
	heads, reads atomic.Int64
}

func (g *headReading) ReadHead(ctx context.Context, _ time.Duration, p *source.Page) (seen bool, err error) {
	g.heads.Add(1)
	if g.held != nil {
		select {
		case <-g.held:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if g.blind {
		p.Reset()
		return false, nil
	}
	return true, g.Shard.Read(ctx, source.Query{After: math.MaxInt64, Limit: 1}, p)
}

func (g *headReading) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if q.Ranges == nil {
		g.reads.Add(1)
	}
	return g.Shard.Read(ctx, q, p)
}

func TestAQuietShardReadsTheHeadAlone(t *testing.T) {
	b := newBench(t)
	g := &headReading{Shard: b.table}
	b.source = g
	s, stop := b.run(t)
	eventually(t, "it heads", func() bool { return g.heads.Load() > 5 })
	if n := g.reads.Load(); n > 0 {
		t.Errorf("%d reads of an empty table", n)
	}
	if s.Status().LastPoll.IsZero() {
		t.Error("the status knows of no poll")
	}
	b.insert(1)
	eventually(t, "the row arrives", func() bool { return b.count(topic) == 1 })
	// It is not quiet any more.
	heads, reads := g.heads.Load(), g.reads.Load()
	eventually(t, "it reads", func() bool { return g.reads.Load() > reads+5 })
	if n := g.heads.Load() - heads; n > 0 {
		t.Errorf("%d heads right after a row", n)
	}
	stop()

	t.Run("also with a position, and finds what commits behind it", func(t *testing.T) {
		open := b.table.Open("name", "2020-01-01 00:00:00.000000")
		// Started again it is quiet at once.
		heads = g.heads.Load()
		b.run(t)
		eventually(t, "it heads", func() bool { return g.heads.Load() > heads+2 })
		b.table.Commit(open)
		eventually(t, "the row arrives", func() bool { return b.count(topic) == 2 })
	})
}

func TestAShardReadsWhatTheHeadCannotShow(t *testing.T) {
	b := newBench(t)
	g := &headReading{Shard: b.table, blind: true}
	b.source = g
	b.insert(3)
	b.runTo(t, 3)
	if g.heads.Load() == 0 {
		t.Error("it did not read of the head")
	}
}

func TestReadsOfTheHeadHoldNothingThatOthersNeed(t *testing.T) {
	busy := newBench(t)
	busy.shared = true
	held := make(chan struct{})
	for range 12 {
		b := newBench(t)
		b.opts.Limits, b.shared = busy.opts.Limits, true
		g := &headReading{Shard: b.table, held: held}
		b.source = g
		b.run(t)
		eventually(t, "it heads", func() bool { return g.heads.Load() > 0 })
	}
	busy.insert(1)
	busy.run(t)
	eventually(t, "the row of a busy shard arrives", func() bool { return busy.count(topic) == 1 })
	close(held)
}

// TestAKeyBeforeTheFirstPage has an entity nominated before a shard has polled.
func TestAKeyBeforeTheFirstPage(t *testing.T) {
	b := newViewBench(t, false)
	row := b.table.Insert("a", "1", "0")
	_, stop := b.run(t)
	b.expectSaid(t, "Added a=1")
	b.saved(t, row)
	stop()
	b.table.Delete(row)
	b.opts.PollInterval = time.Hour
	s, _ := b.run(t)
	eventually(t, "the shard runs", func() bool {
		_, err := s.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity("a")}})
		return err == nil
	})
	b.expectSaid(t, "Added a=1", "Deleted a")
}
