//go:build unix

package sinktest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"bridge/sink"
)

// BenchmarkRead reads span again and again, which holds a message of bridge at every offset. It
// reports messages, bytes and the processor time of the process.
func BenchmarkRead(b *testing.B, reader sink.Reader, span sink.Span) {
	b.Helper()
	b.ReportAllocs()
	messages := int(span.To - span.From)
	read, size, begun := 0, 0, CPUTime(b)
	for b.Loop() {
		if _, err := reader.Read(b.Context(), span, func(m *sink.Stored) error {
			read++
			size += m.Size()
			if len(m.Header(sink.HeaderStream)) == 0 {
				return fmt.Errorf("offset %d has no stream", m.Offset)
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	if read%messages != 0 || read == 0 {
		b.Fatalf("%d messages are read", read)
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(CPUTime(b)-begun)/float64(read), "cpu-ns/message")
	b.ReportMetric(float64(size)/b.Elapsed().Seconds()/1e6, "MB/s")
}

// CPUTime is what this process has used: on a busy machine it tells more than the clock.
func CPUTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
