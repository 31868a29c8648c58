package verify_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
	"bridge/source"
	"bridge/source/memory"
)

// generated is a bus that makes its messages when they are read.
type generated struct {
	b       *testing.B
	encoder *event.Encoder
	columns *source.Columns
	n       int
	done    bool
	// stamped says that messages have the headers of a stream, and a stamp.
	stamped bool
	state   []byte
}

func (g *generated) Read(_ context.Context, each func(*verify.Message) error, _ func(done, total uint64)) error {
	if g.done {
		return nil
	}
	g.done = true
	if err := g.encoder.Bind(g.columns); err != nil {
		return err
	}
	values := [][]byte{nil, nil, []byte("some state of ordinary length"), []byte("1.50"), []byte("2026-03-01 10:20:30.123")}
	var buf []byte
	var m verify.Message
	for i := range g.n {
		id := fmt.Appendf(nil, "%d", i+1)
		values[0], values[1] = id, append([]byte("name-"), id...)
		var ev event.Event
		var err error
		buf, ev, err = g.encoder.Append(buf[:0], event.Row{Row: source.Row{ID: uint64(i + 1), Values: values}, Read: time.Now()})
		if err != nil {
			return err
		}
		m = verify.Message{At: uint64(i), Key: ev.Key, Value: ev.Body}
		m.Header.Set("eiffel-id", ev.ID)
		if g.stamped {
			g.stamp(&m, uint64(i))
		}
		if err := each(&m); err != nil {
			return err
		}
	}
	return nil
}

// stamp gives m the headers of message number i, as batches of 250.
func (g *generated) stamp(m *verify.Message, i uint64) {
	state := sink.State{Epoch: 0x19ab3c4d5e6f, Seq: i, Acked: uint32(i - i%250), Index: uint32(i % 250), Digest: [16]byte{1}, Hash: 7}
	g.state = sink.AppendState(g.state[:0], &state)
	m.Header.Set(sink.HeaderDomain, "bridge")
	m.Header.Set(sink.HeaderStream, "things")
	m.Header.Set(sink.HeaderShard, "thing")
	m.Header.Set(sink.HeaderState, string(g.state))
}

func (g *generated) Partitions() []verify.Partition {
	return []verify.Partition{{Name: "T/0"}}
}
func (g *generated) Close() error { return nil }
func (g *generated) Fetch(context.Context, int, uint64) (*verify.Message, error) {
	return nil, fmt.Errorf("no message is kept")
}

// BenchmarkFold reports the time of a message, the encoding of it in the benchmark included, and
// the memory of an entity or row.
func BenchmarkFold(b *testing.B) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		b.Run(string(kind), func(b *testing.B) { benchmarkFold(b, kind, false) })
		b.Run(string(kind)+" with stamps", func(b *testing.B) { benchmarkFold(b, kind, true) })
	}
}

func benchmarkFold(b *testing.B, kind event.Kind, stamped bool) {
	table := memory.NewTable(spec, list...)
	var page source.Page
	if err := table.Read(b.Context(), source.Query{Limit: 1}, &page); err != nil {
		b.Fatal(err)
	}
	newEncoder := func() *event.Encoder {
		e, err := event.NewEncoder(event.Options{Stream: "things", Shard: "thing", Kind: kind, Source: "shop", Table: "thing"})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	bus := &generated{b: b, encoder: newEncoder(), columns: page.Columns, n: b.N, stamped: stamped}
	var peak runtime.MemStats
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// The last step is told when everything has been folded.
	progress := func(s verify.Step) {
		if s.What == "reading thing" {
			runtime.GC()
			runtime.ReadMemStats(&peak)
		}
	}
	b.ResetTimer()
	_, err := verify.Run(b.Context(), verify.Options{
		Bus: bus, Rounds: 1, Pause: time.Millisecond, Progress: progress,
		Shards: []verify.Shard{{Stream: "things", Name: "thing", Kind: kind, Source: table, Encoder: newEncoder()}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peak.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/entity")
}
