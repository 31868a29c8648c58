package shard_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

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
