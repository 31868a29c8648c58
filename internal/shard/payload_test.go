package shard_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// TestMessagesThatAreAColumnComeInTheOrderOfTheirCommits: late rows that one poll cannot hand over,
// and young ones, have the rows behind them wait.
func TestMessagesThatAreAColumnComeInTheOrderOfTheirCommits(t *testing.T) {
	for name, c := range map[string]struct {
		late  string
		young bool
		rows  int
		set   func(*shard.Options)
	}{
		"a page of late rows that is cut": {late: strings.Repeat("x", 1000), rows: 40, set: func(o *shard.Options) { o.Limits = shard.NewLimits(64<<10, 1, 2).Stream() }},
		"late rows beyond the rate":       {late: "late", rows: 20, set: func(o *shard.Options) { o.Rate = shard.NewRate(20) }},
		"young late rows":                 {late: "late", young: true, rows: 2, set: func(o *shard.Options) { o.Window = time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			b := payloadBench(t)
			c.set(&b.opts)
			created := old
			var armed atomic.Bool
			b.hook = func(q source.Query) error {
				if q.Ranges == nil && armed.CompareAndSwap(true, false) {
					// Row 100 is of a transaction that began behind that of the late rows.
					for i := range c.rows {
						b.table.InsertAt(uint64(2+i), c.late, created)
					}
					b.table.InsertAt(100, "behind", old)
				}
				return nil
			}
			b.table.InsertAt(1, "n", old)
			b.table.InsertAt(50, "n", old)
			_, stop := b.run(t)
			b.saved(t, 50)
			if c.young {
				created = now()
			}
			armed.Store(true)
			b.table.InsertAt(99, "n", old)
			eventually(t, "all rows are published", func() bool { return len(b.ids(topic)) == c.rows+4 })
			stop()
			got := b.ids(topic)
			for _, id := range got[slices.Index(got, 100):] {
				if id < 50 {
					t.Fatalf("row %d comes behind row 100, which was committed later: %v", id, got)
				}
			}
		})
	}
	t.Run("a young row before one whose CREATED is older", func(t *testing.T) {
		b := payloadBench(t)
		b.opts.Window = time.Second
		b.table.InsertAt(1, "n", old)
		_, stop := b.run(t)
		b.saved(t, 1)
		b.table.InsertAt(2, "first", now())
		b.table.InsertAt(3, "second", ago(3*time.Second))
		eventually(t, "all rows are published", func() bool { return len(b.ids(topic)) == 3 })
		stop()
		if got := b.ids(topic); !slices.IsSorted(got) {
			t.Errorf("got rows %v", got)
		}
	})
}

// payloadBench is a stream whose messages are a column.
func payloadBench(t *testing.T) *bench {
	b := newBench(t)
	b.payload = &event.Payload{Column: "name"}
	b.format, b.opts.Format = event.FormatPayload, sink.FormatPayload
	return b
}
