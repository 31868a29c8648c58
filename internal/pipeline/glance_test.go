package pipeline_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"bridge/source"
)

// glancing is a source that says cheaply that there is nothing new.
type glancing struct {
	source.Shard
	glances, reads atomic.Int64
}

func (g *glancing) Glance(ctx context.Context, _ time.Duration, p *source.Page) (seen bool, err error) {
	g.glances.Add(1)
	return true, g.Shard.Read(ctx, source.Query{After: math.MaxInt64, Limit: 1}, p)
}

func (g *glancing) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if q.Ranges == nil {
		g.reads.Add(1)
	}
	return g.Shard.Read(ctx, q, p)
}

func TestAQuietShardGlances(t *testing.T) {
	b := newBench(t)
	g := &glancing{Shard: b.table}
	b.source = g
	s, stop := b.run(t)
	eventually(t, "it glances", func() bool { return g.glances.Load() > 5 })
	if n := g.reads.Load(); n > 0 {
		t.Errorf("%d reads of an empty table", n)
	}
	if s.Status().LastPoll.IsZero() {
		t.Error("the status knows of no poll")
	}
	b.insert(1)
	eventually(t, "the row arrives", func() bool { return len(b.ids(topic)) == 1 })
	// It is not quiet any more.
	glances, reads := g.glances.Load(), g.reads.Load()
	eventually(t, "it reads", func() bool { return g.reads.Load() > reads+5 })
	if n := g.glances.Load() - glances; n > 0 {
		t.Errorf("%d glances right after a row", n)
	}
	stop()
}
