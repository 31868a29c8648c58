package shard_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bridge/source"
)

// countedIDs counts the reads of ids.
type countedIDs struct {
	source.Shard
	rows, ids *atomic.Int64
}

func (c countedIDs) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if q.Ranges != nil {
		c.rows.Add(1)
	}
	return c.Shard.Read(ctx, q, p)
}

func (c countedIDs) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	c.ids.Add(1)
	return c.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids)
}

// TestALargeTransactionLands commits more rows below the position than one read brings.
func TestALargeTransactionLands(t *testing.T) {
	const late = 20_000
	b := newBench(t)
	var rows, ids atomic.Int64
	b.source = countedIDs{Shard: b.table, rows: &rows, ids: &ids}
	var open []uint64
	for range late {
		open = append(open, b.table.Open("late", old))
	}
	b.insert(1)
	b.opts.PollInterval = 500 * time.Millisecond
	s, stop := b.run(t)
	eventually(t, "in flight", func() bool { return s.Status().Gaps.InFlight == late })
	release := b.bus.Pause(3000)
	defer release()
	for _, id := range open {
		b.table.Commit(id)
	}
	rows.Store(0)
	ids.Store(0)
	begun := time.Now()
	eventually(t, "the bus stands still among them", func() bool { return b.count(topic) >= 3000 })
	// The tail has its turn among them.
	b.insert(1)
	release()
	eventually(t, "all are published", func() bool { return b.count(topic) == late+2 })
	took := time.Since(begun)
	drained(t, s)
	stop()

	all := b.ids(topic)
	if at := slices.Index(all, late+2); at == len(all)-1 {
		t.Error("the row of the tail came behind all late ones")
	}
	slices.Sort(all)
	expectRun(t, all, 1, late+2)
	// Each poll that waits for its interval reads late rows once and evidence once; all others read
	// rows alone.
	polls := int64(took/b.opts.PollInterval) + 3
	if pages := int64(late/2048 + 1); rows.Load() > pages+polls+2 {
		t.Errorf("%d reads of late rows for %d pages: what was read ahead was read again", rows.Load(), pages)
	}
	if ids.Load() > polls {
		t.Errorf("%d reads of evidence in %s", ids.Load(), took)
	}
}
