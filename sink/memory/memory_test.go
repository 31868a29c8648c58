package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/sink"
	"bridge/sink/memory"
	"bridge/sink/sinktest"
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
			Features: sinktest.Features{
				Keys: opts.Stream == "", Drops: opts.Duplicates > 0, Headers: true, Reads: true, Durable: true, Rejects: true, Stalls: true, Wipes: true,
			},
			Cut:      func(testing.TB) { s.Fail(5, errors.New("connection reset"), true) },
			MaxBytes: opts.MaxBytes,
			Restart:  func(testing.TB) { s.Fail(50, errors.New("connection reset"), true) },
			Stall:    func(testing.TB) func() { return s.Pause(0) },
			Wipe:     func(testing.TB) { s.Wipe() },
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

func messages(n int) []sink.Message {
	out := make([]sink.Message, n)
	for i := range out {
		out[i] = sink.Message{Destination: "d", Key: fmt.Append(nil, i%2), Value: []byte("{}"), ID: fmt.Sprint(i)}
	}
	return out
}

func TestHold(t *testing.T) {
	s := memory.New(memory.Options{})
	release := s.Pause(3)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan sink.Outcome)
	go func() {
		out, err := s.Publish(ctx, messages(5))
		if !errors.Is(err, errStop) {
			t.Errorf("Publish: %v", err)
		}
		done <- out
	}()
	for s.Ready(t.Context()) == nil {
		continue
	}
	cancel(errStop)
	if out := <-done; out.Acked() > 3 {
		t.Errorf("%d messages are acknowledged, want at most 3", out.Acked())
	}
	if n := len(s.Messages("d")); n != 3 {
		t.Errorf("the bus holds %d messages, want 3", n)
	}
	release()
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("Ready after release: %v", err)
	}
}

var errStop = errors.New("stop")

func TestFail(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept %v", kept), func(t *testing.T) {
			var faults atomic.Int32
			s := memory.New(memory.Options{Fault: func(tp string, err error) {
				if tp != "d" || !errors.Is(err, errStop) {
					t.Errorf("fault at %s: %v", tp, err)
				}
				faults.Add(1)
			}})
			s.Fail(2, errStop, kept)
			out, err := s.Publish(t.Context(), messages(3))
			if err != nil || !out.AllAcked() || faults.Load() != 2 {
				t.Fatalf("acknowledged %d after %d faults: %v", out.Acked(), faults.Load(), err)
			}
			want := 3
			if kept {
				want = 5
			}
			if got := len(s.Messages("d")); got != want {
				t.Errorf("the bus holds %d messages, want %d", got, want)
			}
		})
	}
}

func TestRejectByPredicate(t *testing.T) {
	for _, byKey := range []bool{false, true} {
		s := memory.New(memory.Options{ByKey: byKey})
		s.Reject(func(m *sink.Message) string {
			if m.ID == "1" {
				return "no ones"
			}
			return ""
		})
		out, err := s.Publish(t.Context(), messages(4))
		if err != nil || len(out.Rejected) != 1 || out.Rejected[0] != (sink.Rejection{Index: 1, Reason: "no ones"}) {
			t.Fatalf("outcome %+v, %v", out, err)
		}
		if acked := map[bool]int{false: 1, true: 2}[byKey]; out.Acked() != acked {
			t.Errorf("by key %v: %d messages are acknowledged, want %d", byKey, out.Acked(), acked)
		}
	}
}

func TestLose(t *testing.T) {
	s := memory.New(memory.Options{})
	if _, err := s.Publish(t.Context(), messages(4)); err != nil {
		t.Fatal(err)
	}
	s.Lose("d", 1)
	_, err := s.Read(t.Context(), sink.Span{TP: "d", From: 5, To: 6}, func(*sink.Stored) error { return nil })
	if !errors.Is(err, sink.ErrBehind) {
		t.Errorf("Read returns %v, want ErrBehind", err)
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

// Repeats are dropped for as long as the options say, and those of what the bus has lost are not.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Duplicates: time.Minute})
		publish := func(want int) {
			t.Helper()
			out, err := s.Publish(t.Context(), messages(4))
			if err != nil || out.Duplicates != want || len(s.Messages("d")) != s.Destinations()["d"] {
				t.Fatalf("%d duplicates, want %d: %v", out.Duplicates, want, err)
			}
		}
		publish(0)
		publish(4)
		s.Lose("d", 1)
		publish(3)
		// A purge forgets nothing.
		s.Expire("d", 4)
		publish(4)
		<-time.NewTimer(time.Minute).C
		publish(0)
		s.Wipe()
		publish(0)
	})
}

// Messages of a key lie in one partition, those of several keys in several.
func TestPartitions(t *testing.T) {
	s := memory.New(kafka)
	sent := messages(100)
	for i := range sent {
		sent[i].Key = fmt.Append(nil, i%10)
	}
	out, err := s.Publish(t.Context(), sent)
	if err != nil || len(out.TPs) != kafka.Partitions {
		t.Fatalf("TPs %v, want %d: %v", out.TPs, kafka.Partitions, err)
	}
	for i := range sent {
		if out.At[i].TP != out.At[i%10].TP {
			t.Errorf("key %s lies in %v and %v", sent[i].Key, out.TPs[out.At[i].TP], out.TPs[out.At[i%10].TP])
		}
	}
}
