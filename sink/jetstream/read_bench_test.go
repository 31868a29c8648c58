package jetstream_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink"
	"bridge/sink/jetstream"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// BenchmarkRead reads a stream of a real server: BRIDGE_TEST_REAL=1 go test -bench Read. Its
// messages have 200 bytes and the 12 headers that the sink gives them.
func BenchmarkRead(b *testing.B) {
	const messages = 200_000
	server := testenv.StartNATS(b)
	name := server.CreateStream(b, natsjs.StreamConfig{}).CachedInfo().Config.Name
	s := open(b, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
	for part := range messages / 5000 {
		mustPublish(b, s, ours(name+".a", fmt.Sprint("s", part), 5000))
	}
	for _, filter := range []string{"", name + ".*"} {
		b.Run("filter="+filter[min(len(filter), len(name)):], func(b *testing.B) {
			o := jetstream.Options{URLs: []string{server.URL()}, Stream: name}
			if filter != "" {
				o.Readable = []string{filter}
			}
			s := open(b, o)
			b.ReportAllocs()
			read, size, begun := 0, 0, cpuTime(b)
			for b.Loop() {
				if _, err := s.Read(b.Context(), sink.Span{TP: name, From: 1, To: messages + 1}, func(m *sink.Stored) error {
					read++
					size += m.Size()
					if len(m.Header(sink.HeaderStream)) == 0 {
						return fmt.Errorf("sequence %d has no stream", m.Offset)
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
			b.ReportMetric(float64(cpuTime(b)-begun)/float64(read), "cpu-ns/message")
			b.ReportMetric(float64(size)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}

// cpuTime is what this process has used: on a busy machine it tells more than the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
