package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.org/bridge/client"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// Stream is the stream that a Writer publishes.
const Stream = "orders"

// Writer publishes as one run of bridge does, and keeps the table that it makes.
type Writer struct {
	// Destination and Epoch are those of the next message.
	Destination string
	Epoch       uint64

	t    testing.TB
	sink sink.Sink
	seq  uint64
	// pad makes events longer.
	pad []byte
	// Table has what each entity says, by key; IDs are those of all events in their order.
	Table map[string]string
	IDs   []string
}

// NewWriter returns a writer. Of two the one with the higher epoch is the later one.
func NewWriter(t testing.TB, s sink.Sink, destination string, epoch uint64) *Writer {
	return &Writer{t: t, sink: s, Destination: destination, Epoch: epoch, Table: make(map[string]string)}
}

// Write publishes n events of so many entities; each seventh deletes its entity. The data of an
// event has one member, says.
func (w *Writer) Write(n, entities int) {
	w.t.Helper()
	batch := make([]sink.Message, 0, n)
	for i := range n {
		m := w.next(entities)
		m.State.Index = uint32(i)
		batch = append(batch, m)
	}
	w.Publish(batch...)
}

// Publish publishes messages.
func (w *Writer) Publish(batch ...sink.Message) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Within)
	defer cancel()
	if out, err := w.sink.Publish(ctx, batch); err != nil || !out.AllAcked() {
		w.t.Fatalf("published %d of %d: %v", out.Acked(), len(batch), err)
	}
}

func (w *Writer) next(entities int) sink.Message {
	next := w.seq + 1
	m := w.Message(Key(int(next%uint64(entities))), fmt.Sprint(w.Epoch, ".", next), next%7 == 0)
	w.IDs = append(w.IDs, m.ID)
	return m
}

// Key returns the key of an entity of Write.
func Key(entity int) string { return fmt.Sprint("key ", entity) }

// Message returns the next message about an entity, whose id depends on the entity and on what is
// said.
func (w *Writer) Message(key, says string, gone bool) sink.Message {
	w.seq++
	m := sink.Message{
		Destination: w.Destination, Key: []byte(key), ID: uuid.NewSHA1(uuid.Nil, []byte(key+"="+says)).String(), Type: "OrderModifiedEvent", Version: "1.0.0",
		Domain: client.DefaultDomain, Stream: Stream, Shard: Stream, RowID: w.seq, Origin: sink.FromTail, Time: time.Now(),
		State: sink.State{Epoch: w.Epoch, Seq: w.seq, Hash: 1, Digest: [16]byte{1}},
	}
	w.Table[key] = says
	if gone {
		m.Type, m.State.Kind, m.State.Digest = "OrderDeletedEvent", sink.StateAbsent, [16]byte{}
		delete(w.Table, key)
	}
	m.Value = fmt.Appendf(nil, `{"meta":{"id":%q,"type":%q,"version":%q,"time":%d},"data":{"says":%q,"pad":"%s"},"links":[]}`,
		m.ID, m.Type, m.Version, m.Time.UnixMilli(), says, w.pad)
	return m
}

// Sizes of a benchmark. The events are about as long as those of docs/events.md.
const (
	benchEvents   = 1_000_000
	benchEntities = 250_000
	benchBody     = 560
)

// Bench measures how fast a table reads a million events about 250,000 entities, and what it takes
// in memory.
func Bench(b *testing.B, f Fixture) {
	w := NewWriter(b, f.Sink, f.Destination, 1)
	w.pad = bytes.Repeat([]byte("x"), benchBody)
	for range benchEvents / 5000 {
		w.Write(5000, benchEntities)
	}
	before := heap()
	for b.Loop() {
		table := must.Get(client.NewTable(f.Bus, f.options()))(b)
		stop := Start(b, table.Run)
		ready(b, table)
		b.StopTimer()
		entities := table.Len()
		stop()
		b.ReportMetric(float64(heap()-before)/float64(entities), "B/entity")
		runtime.KeepAlive(table)
		b.StartTimer()
	}
	b.ReportMetric(float64(benchEvents)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchEvents measures how fast events are handed to a handler that does nothing.
func BenchEvents(b *testing.B, f Fixture) {
	const count = 50_000
	w := NewWriter(b, f.Sink, f.Destination, 1)
	w.pad = bytes.Repeat([]byte("x"), benchBody)
	for range count / 5000 {
		w.Write(5000, count)
	}
	for n := 0; b.Loop(); n++ {
		handled, done := 0, make(chan struct{})
		var mu sync.Mutex
		_, stop := Handle(b, f.Bus, fmt.Sprint("bench-", n, "-", b.N), f.options(), func(context.Context, client.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if handled++; handled == count {
				close(done)
			}
			return nil
		})
		<-done
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
