package memory_test

import (
	"context"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/sink/sinktest/memory"
)

var (
	kafka     = memory.Options{Partitions: 3}
	jetStream = memory.Options{Stream: "S", Duplicates: time.Hour}
)

func TestConformance(t *testing.T) {
	for name, opts := range map[string]memory.Options{"of a TP a destination": {}, "as Kafka": kafka, "as JetStream": jetStream} {
		t.Run(name, func(t *testing.T) { sinktest.Run(t, func(*testing.T) sinktest.Fixture { return fixture(opts) }) })
	}
}

func fixture(opts memory.Options) sinktest.Fixture {
	opts.MaxBytes = 1 << 20
	s := memory.New(opts)
	return sinktest.Fixture{
		Sink: s, Destinations: []string{"one", "two"}, MaxBytes: opts.MaxBytes,
		Read: func(_ testing.TB, d string) (records []sinktest.Record) {
			for _, m := range s.Messages(d) {
				r := sinktest.Record{ID: m.ID, Key: m.Key, Value: m.Value, Headers: make(map[string]string)}
				headers := sink.Headers{Keyless: opts.Stream != ""}
				headers.Each(&m, func(name, value string) { r.Headers[name] = value })
				records = append(records, r)
			}
			return records
		},
		Features: sinktest.Features{Keys: opts.Stream == "", Drops: opts.Duplicates > 0, Headers: true, Reads: true},
		Stall:    func(testing.TB) func() { return s.Pause(0) },
		Wipe:     func(testing.TB) { s.Wipe() },
	}
}

func TestReader(t *testing.T) {
	t.Run("of a TP a destination", func(t *testing.T) { sinktest.RunReader(t, readerFixture(memory.Options{}, "d")) })
	t.Run("of the one TP of all destinations", func(t *testing.T) { sinktest.RunReader(t, readerFixture(jetStream, "S")) })
}

func readerFixture(opts memory.Options, tp string) func(t *testing.T) sinktest.ReaderFixture {
	return func(*testing.T) sinktest.ReaderFixture {
		s := memory.New(opts)
		publish := func(t testing.TB, batch []sink.Message) {
			if out, err := s.Publish(context.Background(), batch); err != nil || !out.AllAcked() {
				t.Errorf("published %d of %d: %v", out.Acked(), len(batch), err)
			}
		}
		s.Create("d")
		return sinktest.ReaderFixture{
			Reader: s, Destination: "d", Publish: publish, Close: s.Close, Keys: opts.Stream == "", MaxBytes: 1 << 20,
			Expire: func(_ testing.TB, first uint64) { s.Expire(tp, first-1) },
			Delete: func(_ testing.TB, offsets []uint64) { s.Delete(tp, offsets...) },
			Wipe:   func(testing.TB) { s.Wipe() },
		}
	}
}
