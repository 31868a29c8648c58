package clienttest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"example.org/bridge/client"
	"example.org/bridge/sink"
)

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
		table, err := client.NewTable(f.Bus, f.options())
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- table.Run(ctx) }()
		ready(b, table)
		b.StopTimer()
		entities := table.Len()
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
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
		events, err := client.NewEvents(f.Bus, fmt.Sprint("bench-", n, "-", b.N), f.options(), func(context.Context, client.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if handled++; handled == count {
				close(done)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		stop := start(b, events.Run)
		<-done
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// heap returns the bytes that live.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// body returns the value of an event.
func (w *Writer) body(m *sink.Message, says string) []byte {
	return fmt.Appendf(nil, `{"meta":{"id":%q,"type":%q,"version":%q,"time":0},"data":{"says":%q,"pad":"%s"},"links":[]}`, m.ID, m.Type, m.Version, says, w.pad)
}
