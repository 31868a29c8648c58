package shard_test

import (
	"context"
	"fmt"
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

// watched is a source that fails the test where two goroutines use it at the same time.
type watched struct {
	source.Shard
	t    testing.TB
	busy atomic.Bool
	// around, when not nil, makes each read of rows.
	around func(ctx context.Context, q source.Query, read func() error) error
}

// watch has the bench read its table through a watched source.
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

// ofTail reports whether q asks for a page of the tail.
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
