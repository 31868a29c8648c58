package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/sinktest"
	"bridge/sink/sinktest/memory"
)

// The traits of buses.
var (
	kafka     = memory.Options{Partitions: 3}
	jetStream = memory.Options{Stream: "S", Duplicates: time.Hour}
)

func fixture(opts memory.Options) func(t *testing.T) sinktest.Fixture {
	return func(*testing.T) sinktest.Fixture {
		opts.MaxBytes = 1 << 20
		s := memory.New(opts)
		return sinktest.Fixture{
			Sink:         s,
			Destinations: []string{"one", "two"},
			Read:         func(_ testing.TB, d string) []sinktest.Record { return records(s.Messages(d), opts.Stream != "") },
			Features:     sinktest.Features{Keys: opts.Stream == "", Drops: opts.Duplicates > 0, Headers: true, Reads: true},
			Cut:          func(testing.TB) { s.Fail(5, errors.New("connection reset"), true) },
			MaxBytes:     opts.MaxBytes,
			Restart:      func(testing.TB) { s.Fail(50, errors.New("connection reset"), true) },
			Stall:        func(testing.TB) func() { return s.Pause(0) },
			Wipe:         func(testing.TB) { s.Wipe() },
		}
	}
}

func records(messages []sink.Message, keyless bool) []sinktest.Record {
	var out []sinktest.Record
	for _, m := range messages {
		r := sinktest.Record{ID: m.ID, Key: m.Key, Value: m.Value, Headers: make(map[string]string)}
		headers := sink.Headers{Keyless: keyless}
		headers.Each(&m, func(name, value string) { r.Headers[name] = value })
		out = append(out, r)
	}
	return out
}

func TestConformance(t *testing.T) {
	t.Run("rejecting by destination", func(t *testing.T) { sinktest.Run(t, fixture(memory.Options{})) })
	t.Run("rejecting by key", func(t *testing.T) { sinktest.Run(t, fixture(memory.Options{ByKey: true})) })
	t.Run("as Kafka", func(t *testing.T) { sinktest.Run(t, fixture(kafka)) })
	t.Run("as JetStream", func(t *testing.T) { sinktest.Run(t, fixture(jetStream)) })
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
