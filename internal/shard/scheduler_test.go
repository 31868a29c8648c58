package shard_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// later waits for a condition for hours, which cost nothing.
func later(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); wait(t, time.Minute) {
		if time.Since(began) > 5*time.Hour {
			t.Fatalf("not within five hours: %s", what)
		}
	}
}

// TestAnIdleShard is one whose next poll is an hour away: what happens before, something else has
// caused.
func TestAnIdleShard(t *testing.T) {
	const slow = "poll-every 30m; look 10s; insert 3; run; count-later 3; idle;"
	viewScripts(t, false, map[string]string{"publishes what is nominated at once": `
		poll-every 30m; look 10s; row a 1 0; run; count-later 1; idle; delete 1; moment; nominate a = deleted=1; soon;
		said Added a=1, Deleted a; idle`})
	rowScripts(t, map[string]string{
		"is stopped at once": slow + "moment; stop-for-good; stopped; soon; stop",
		"ends at once, and another process goes on": slow + `
			moment; stop; soon; busy; nominate-fails 1-1; insert 1; poll-every 1ms; run; count 4; ids 1-4; stop`,
		// The id in flight is polled, so the shard is not idle.
		"finds late rows, sees its table go, and come back": `
			poll-every 1s; look 1s; insert 1; begin name old; insert 1; run; count 2; wait 20s; busy; commit; count 3; idle;
			missing 1; stopped; insert 1; count 4; idle; truncate; insert 1; reused`,
		"is not idle while its bus is away": slow + "hold 0; insert 1; wait 4h; busy; ids 1-3; free; count-later 4; idle; stop",
	})
	instantly(t, "is idle though a poll takes longer than it is to the next", func(t *testing.T) {
		b := newBench(t)
		b.opts.PollInterval, b.pollsPerSecond = 50*time.Millisecond, 1
		b.insert(1)
		b.hook = func(source.Query) error { wait(t, 300*time.Millisecond); return nil }
		s, _ := b.run(t)
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
	s := newViewBench(t, false).play(t, "row a 1 0; run; said Added a=1; saved 1; stop; delete 1; poll-every 1h; run")
	eventually(t, "the shard runs", func() bool {
		_, err := s.shard.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity("a")}})
		return err == nil
	})
	s.play("said Deleted a")
}

// watched is a source that fails the test where two goroutines use it at the same time.
type watched struct {
	source.Shard
	t    testing.TB
	busy atomic.Bool
	// around, when not nil, makes each read of rows.
	around func(ctx context.Context, q source.Query, read func() error) error
}

func (b *bench) watch(t testing.TB) *watched {
	w := &watched{Shard: b.table, t: t}
	b.source = w
	return w
}

func (w *watched) alone(use func() error) error {
	if w.busy.Swap(true) {
		w.t.Error("two goroutines use the source")
	}
	defer w.busy.Store(false)
	return use()
}

func (w *watched) Read(ctx context.Context, q source.Query, p *source.Page) error {
	return w.alone(func() error {
		read := func() error { return w.Shard.Read(ctx, q, p) }
		if w.around == nil {
			return read()
		}
		return w.around(ctx, q, read)
	})
}

func (w *watched) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	return w.alone(func() error { return w.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids) })
}

func ofTail(q source.Query) bool { return q.Ranges == nil && q.Keys == nil }

// quiesce waits, in a synctest bubble, until everything else is blocked before an event is made,
// once in so many events.
func (b *bench) quiesce(every int) {
	made := 0
	b.opts.Route = func(*event.Event) string {
		if made++; made%every == 0 {
			synctest.Wait()
		}
		return topic
	}
}

func TestAPageWaitsForABusNoLongerThanItIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newViewBench(t, false)
		for i := range 600 {
			b.table.Insert(fmt.Sprint("e", i+1), "1", "0")
		}
		b.quiesce(50)
		var highest atomic.Uint64
		b.watch(t).around = func(_ context.Context, q source.Query, read func() error) error {
			if ofTail(q) {
				highest.Store(q.After)
			}
			return read()
		}
		release := b.bus.Pause(10)
		_, stop := b.run(t)
		<-time.After(time.Second)
		const share = 4 << 20
		if got := b.opts.Limits.InFlight(); got < share {
			t.Errorf("%d bytes are in flight, less than one page that waits", got)
		}
		<-time.After(20 * time.Second)
		if got := b.opts.Limits.InFlight(); got > share {
			t.Errorf("%d bytes are in flight still", got)
		}
		row := highest.Load() + 50
		if row > 550 {
			t.Fatalf("the page behind %d was read", highest.Load())
		}
		b.table.Update(row, fmt.Sprint("e", row), "2", "0")
		release()
		b.saved(t, 600)
		stop()
		for _, one := range b.said(t) {
			if one.row == row && one.text != fmt.Sprintf("Added e%d=2", row) {
				t.Errorf("row %d of a page that waited: %s", row, one.text)
			}
		}
	})
}

// TestManyShardsWithLittleMemory has rows larger than what a read reserves, too.
func TestManyShardsWithLittleMemory(t *testing.T) {
	const shards, rows, most, reads = 8, 500, 64 << 10, 2
	limits := shard.NewLimits(most, 1, reads)
	stream := limits.Stream()
	var reading, tooMany atomic.Int64
	around := func(_ context.Context, _ source.Query, read func() error) error {
		if reading.Add(1) > reads || limits.InFlight() > most {
			tooMany.Add(1)
		}
		defer reading.Add(-1)
		// Others have the processor.
		wait(t, 100*time.Microsecond)
		return read()
	}
	var all []*bench
	for range shards {
		b := newViewBench(t, false)
		b.shared, b.opts.Limits = true, stream
		for i := range rows {
			value := "1"
			if i%50 == 0 {
				value = strings.Repeat("x", 9000)
			}
			b.table.Insert(fmt.Sprint("e", i+1), value, "0")
		}
		b.watch(t).around = around
		s, _ := b.run(t)
		go func() {
			eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
			for i := 0; b.position(t) < rows && t.Context().Err() == nil; i++ {
				_, _ = s.Nominate(t.Context(), reconcile.Nomination{Entities: [][]byte{entity(fmt.Sprint("e", i%rows+1))}})
			}
		}()
		all = append(all, b)
	}
	for _, b := range all {
		b.saved(t, rows)
		if got := b.count(topic); got != rows {
			t.Errorf("%d events of %d rows", got, rows)
		}
	}
	eventually(t, "nothing is reserved", func() bool { return limits.InFlight() == 0 })
	if n := tooMany.Load(); n > 0 {
		t.Errorf("%d reads beyond the limits", n)
	}
}

func TestUpdatesLeaveTheTailItsTurnWhereTheBusIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newViewBench(t, true)
		// The bus takes a batch every five seconds.
		gate, over := make(chan struct{}), make(chan struct{})
		b.sink = gatedSink{b.bus, gate}
		go func() {
			for {
				select {
				case <-time.After(5 * time.Second):
				case <-over:
					return
				}
				select {
				case gate <- struct{}{}:
				case <-over:
					return
				}
			}
		}()
		b.table.Insert("a", "0", "0", now())
		_, stop := b.run(t)
		b.saved(t, 1)
		for i := range 30 {
			b.table.Update(1, "a", fmt.Sprint(i+1), "0", now())
			if i == 1 {
				b.table.Insert("b", "0", "0", now())
			}
			<-time.After(2 * time.Second)
		}
		if got := b.position(t); got != 2 {
			t.Errorf("the position is %d a minute after row 2 was inserted", got)
		}
		stop()
		close(over)
	})
}
