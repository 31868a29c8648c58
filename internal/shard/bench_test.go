package shard_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
)

// benchBatch is BATCH_ROWS.
const benchBatch = 2000

// backlog is a table with the ids 1 to last. Its rows, of about 300 bytes, are made when they are
// read.
type backlog struct {
	*sourcememory.Table
	columns *source.Columns
	last    uint64
	scratch []byte
}

func newBacklog(last uint64) *backlog {
	list := []source.Column{
		{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}, {Name: "value", Kind: source.Text},
		{Name: "created", Kind: source.Timestamp, Precision: 3},
	}
	return &backlog{
		Table:   sourcememory.NewTable(source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Created: "created"}, list...),
		columns: &source.Columns{List: list, ID: 0, Key: []int{1}, Created: 3, Modified: -1, Deleted: -1},
		last:    last,
	}
}

// Read implements source.Shard for the tail of a backlog without gaps.
func (b *backlog) Read(_ context.Context, q source.Query, p *source.Page) error {
	p.Reset()
	p.Columns, p.Now, p.MaxID, p.Server = b.columns, time.Now().UTC(), b.last, "backlog"
	value := []byte("protocol=bolt;zone=zone-3;weight=42;note=8c1e6a1f4b3d;services=com.example.order.OrderFacade:1.0;tags=canary,stable")
	for id := q.After + 1; id <= b.last && len(p.Rows) < q.Limit; id++ {
		p.Append(id, len(b.columns.List))
		b.scratch = strconv.AppendUint(b.scratch[:0], id, 10)
		p.Set(0, b.scratch)
		p.Set(1, fmt.Appendf(b.scratch[:0], "%032x", id*0x9e3779b97f4a7c15))
		p.Set(2, value)
		p.Set(3, []byte("2026-03-01 10:20:30.123"))
	}
	p.More = len(p.Rows) == q.Limit
	return nil
}

// counting is a bus that acknowledges everything at once, and says when that was so many messages.
type counting struct {
	sink.Sink
	mu   sync.Mutex
	next uint64
	left int
	done chan struct{}
}

func (c *counting) Publish(_ context.Context, batch []sink.Message) (sink.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch)), TPs: []sink.TPRef{{Name: topic}}}
	for i := range batch {
		out.Status[i], out.At[i] = sink.Acked, sink.At{Offset: c.next, Known: true}
		c.next++
	}
	if c.left -= len(batch); c.left <= 0 {
		close(c.done)
	}
	return out, nil
}

// BenchmarkShard runs owner and publisher of a shard with a checkpoint in a folder, between a
// source and a bus that cost nothing. An operation is a page of 2,000 rows.
func BenchmarkShard(b *testing.B) {
	for _, kind := range []event.Kind{event.Release, event.Capability} {
		b.Run("kind="+string(kind), func(b *testing.B) {
			rows := b.N * benchBatch
			shard := newBench(b)
			from := newBacklog(uint64(rows))
			shard.table, shard.opts.Kind, shard.opts.BatchRows = from.Table, kind, benchBatch
			shard.source = from
			bus := &counting{Sink: shard.bus, left: rows, done: make(chan struct{})}
			shard.sink = bus
			shard.tick = time.Hour
			store, err := pebble.Open(b.Context(), filepath.Join(b.TempDir(), "bridge"), pebble.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			shard.store = store
			b.ReportAllocs()
			b.ResetTimer()
			began := sinktest.CPUTime(b)
			_, stop := shard.run(b)
			<-bus.done
			stop()
			b.StopTimer()
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((sinktest.CPUTime(b)-began).Nanoseconds())/1e3/float64(rows), "cpu-µs/row")
		})
	}
}
