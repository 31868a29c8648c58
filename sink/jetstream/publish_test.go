package jetstream_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestPublish counts goroutines: no other test runs beside it.
func TestPublish(t *testing.T) {
	broker := testenv.OwnNATS(t)

	move := func(how func(name string)) func(t *testing.T) {
		return func(t *testing.T) {
			name := testenv.NewStreamName()
			broker.CreateStream(t, natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
			s := open(t, jetstream.Options{Connection: at(broker.URL(), "")})
			sinktest.MustPublish(t, s, messages(name+".a", "before", 10, 10))
			how(name)
			other := broker.CreateStream(t, natsjs.StreamConfig{Subjects: []string{name + ".a"}})
			after := messages(name+".a", "after", 100, 10)
			sinktest.MustPublish(t, s, after)
			wantWhole(t, testenv.Consume(t, other, ""), after)
		}
	}
	t.Run("a subject that moves to another stream is followed", move(func(name string) {
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.Subjects = []string{name + ".elsewhere"} })
	}))
	t.Run("so is one whose stream is deleted", move(func(name string) {
		must.OK(t, broker.JetStream(t).DeleteStream(t.Context(), name))
	}))

	t.Run("a limit that changes under way is followed", func(t *testing.T) {
		s, _, name := onStream(t, broker, natsjs.StreamConfig{})
		sinktest.MustPublish(t, s, messages(name+".a", "before", 10, 10))
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 2048 })
		batch := messages(name+".a", "after", 20, 20)
		batch[10].Value = make([]byte, 3000)
		out, err := s.Publish(sinktest.Deadline(t), batch)
		if err != nil || out.Acked() != 10 || len(out.Rejected) != 1 || out.Rejected[0].Index != 10 || out.Status[11] != sink.Pending {
			t.Fatalf("the outcome is %+v, %v", out, err)
		}
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 4096 })
		sinktest.Until(t, "it is taken", func() bool {
			out, err := s.Publish(sinktest.Deadline(t), batch[10:11])
			return err == nil && out.AllAcked()
		})
		sinktest.MustPublish(t, s, batch[11:])
	})

	t.Run("a destination that is not a subject is rejected", func(t *testing.T) {
		s, _, name := onStream(t, broker, natsjs.StreamConfig{})
		// A line has 66 bytes beyond its subject, and servers take 4096 by default.
		longest := name + "." + strings.Repeat("x", 4096-66-len(name)-1)
		sinktest.MustPublish(t, s, messages(longest, "long", 1, 1))
		for _, subject := range []string{name + ".a b", name + "..a", name + ".*", "", "." + name, longest + "x"} {
			out, err := s.Publish(sinktest.Deadline(t), messages(subject, "bad", 1, 1))
			if err != nil || len(out.Rejected) != 1 {
				t.Errorf("%q: the outcome is %+v, %v", subject, out, err)
			}
		}
	})

	t.Run("Close leaves no goroutine behind", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		before := runtime.NumGoroutine()
		s := open(t, jetstream.Options{Connection: at(broker.URL(), name)})
		sinktest.MustFence(t, s)
		sinktest.MustPublish(t, s, messages(name+".a", "some", 100, 10))
		must.OK(t, s.Close())
		must.Fail(t, s.Ready(t.Context()), sink.ErrClosed)
		// The library's own goroutines and the server's end a moment after the connection.
		sinktest.Until(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// TestHalfOpenConnectionIsNoticed by design within 7 s, and else within minutes.
func TestHalfOpenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	sessions := make(chan string, 10)
	broker := testenv.AnyNATS(t)
	stream := broker.CreateStream(t, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	p := testenv.StartProxy(t, broker.Addr())
	s := open(t, jetstream.Options{Connection: at("nats://"+p.Addr(), name), Session: func(stream string) { sessions <- stream }})
	before, during := messages(name+".a", "before", 100, 10), messages(name+".a", "during", 1000, 10)
	sinktest.MustPublish(t, s, before)
	sinktest.MustPublish(t, s, before)
	if first := <-sessions; first != name || len(sessions) != 0 {
		t.Errorf("two batches over one connection told of sessions with %s and %d others", first, len(sessions))
	}
	begun := time.Now()
	p.Freeze()
	sinktest.MustPublish(t, s, during)
	if took := time.Since(begun); len(sessions) == 0 || took > 40*time.Second {
		t.Errorf("%d new connections within %s", len(sessions), took)
	}
	wantWhole(t, testenv.Consume(t, stream, ""), before, during)
}

// TestAShortDuplicateWindow is said once by sinks that are opened one after the other, and again
// when it says something else.
func TestAShortDuplicateWindow(t *testing.T) {
	t.Parallel()
	broker, said, windows := testenv.AnyNATS(t), new(strings.Builder), new(sync.Map)
	name := broker.CreateStream(t, natsjs.StreamConfig{Duplicates: time.Second}).CachedInfo().Config.Name
	for i, want := range []int{1, 1, 2, 2, 3} {
		if window := []time.Duration{0, 0, 2 * time.Second, time.Minute, 2 * time.Second}[i]; window > 0 {
			update(t, broker, name, func(c *natsjs.StreamConfig) { c.Duplicates = window })
		}
		s := open(t, jetstream.Options{Connection: at(broker.URL(), name), Windows: windows, Logger: slog.New(slog.NewTextHandler(said, nil))})
		sinktest.MustPublish(t, s, messages(name+".a", fmt.Sprint(i), 1, 1))
		must.OK(t, s.Close())
		if n := strings.Count(said.String(), "duplicate window is short"); n != want {
			t.Errorf("sink %d: said %d times, want %d:\n%s", i, n, want, said)
		}
	}
}

// claimed returns a stream that takes atomic batches and claims, and options that publish to it.
func claimed(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (natsjs.Stream, jetstream.Options) {
	t.Helper()
	name := testenv.NewStreamName()
	config.Name, config.Subjects, config.AllowAtomicPublish = name, []string{name + ".>"}, true
	stream := server.CreateStream(t, config)
	return stream, jetstream.Options{
		Connection: jetstream.Connection{URLs: []string{server.URL()}, Stream: name, Readable: []string{name + ".a", name + ".b"}},
		Claim:      name + ".claim",
	}
}

// TestLongSubjectsForAServerWithLess has subjects that a server closes the connection for: they are
// refused by name after that, while others go on.
func TestLongSubjectsForAServerWithLess(t *testing.T) {
	t.Parallel()
	server := testenv.InProcessNATS(t, func(o *natsserver.Options) { o.MaxControlLine = 1024 })
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			_, o := claimed(t, server, natsjs.StreamConfig{})
			if !once {
				o.Claim = ""
			}
			var lost atomic.Int64
			o.Fault = func(_ string, err error) {
				if strings.Contains(err.Error(), "ontrol") {
					lost.Add(1)
				}
			}
			s := open(t, o)
			publish := func(batch ...sink.Message) sink.Outcome {
				for {
					out, err := s.Publish(sinktest.Deadline(t), batch)
					if !errors.Is(err, sink.ErrUnknownOutcome) {
						if err != nil {
							t.Error(err)
						}
						return out
					}
				}
			}
			long := func(n int, id string) sink.Message {
				return sink.Message{Destination: o.Stream + "." + strings.Repeat("x", n), ID: id}
			}
			var others sync.WaitGroup
			others.Go(func() {
				for i := range 100 {
					if out := publish(sink.Message{Destination: o.Stream + ".b", ID: fmt.Sprint("other", i)}); !out.AllAcked() {
						t.Errorf("another stream: %+v", out)
					}
				}
			})
			for i, n := range []int{5000, 1200, 900, 1100, 1300} {
				out := publish(sink.Message{Destination: o.Stream + ".a", ID: fmt.Sprint("before", i)}, long(n, fmt.Sprint("long", i)))
				refused := len(out.Rejected) == 1 && out.Rejected[0].Index == 1 && strings.Contains(out.Rejected[0].Reason, "max_control_line")
				if fits := n < 1000; fits != out.AllAcked() || fits == refused {
					t.Errorf("%d bytes: %+v", n, out)
				}
			}
			others.Wait()
			if n := lost.Load(); n == 0 || n > 4 {
				t.Errorf("%d connections were lost", n)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)

	t.Run("what was stored without an answer is found even when its id is forgotten", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{Duplicates: 100 * time.Millisecond})
		// Warm, the worker sends the whole batch at once.
		warm, batch := messages(name+".a", "warm", 500, 10), messages(name+".a", "mute", 200, 10)
		sinktest.MustPublish(t, s, warm)
		p.DropAnswers()
		done := make(chan sink.Outcome, 1)
		go func() {
			out, err := s.Publish(sinktest.Deadline(t), batch)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		sinktest.Until(t, "the batch is stored", func() bool { return len(testenv.Consume(t, stream, "")) == 700 })
		stored := time.Now()
		sinktest.Until(t, "the ids are forgotten", func() bool { return time.Since(stored) > 300*time.Millisecond })
		p.Heal()
		if out := <-done; !out.AllAcked() || out.Duplicates != 0 || out.At[len(out.At)-1].Offset != 700 {
			t.Errorf("%d acknowledged, %d duplicates, they lie at %+v", out.Acked(), out.Duplicates, out.At)
		}
		wantWhole(t, testenv.Consume(t, stream, ""), warm, batch)
	})

	t.Run("nothing that follows a refused message of a batch is stored before it", func(t *testing.T) {
		s, stream, name := onStream(t, server, natsjs.StreamConfig{Discard: natsjs.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 5})
		// Warm, the worker sends the whole batch at once.
		warm := messages(name+".warm", "warm", 500, 10)
		for i := range warm {
			warm[i].Destination = fmt.Sprintf("%s.warm.%d", name, i)
		}
		sinktest.MustPublish(t, s, warm)
		batch := messages(name+".full", "full", 100, 10)
		for i := range batch {
			if i%3 != 0 {
				batch[i].Destination = fmt.Sprintf("%s.free.%d", name, i)
			}
		}
		done := sinktest.Publishing(sinktest.Deadline(t), s, batch)
		sinktest.Until(t, "Ready tells of the full subject", func() bool { return s.Ready(t.Context()) != nil })
		if got := len(testenv.Consume(t, stream, "")) - len(warm); got != 15 {
			t.Errorf("%d messages are stored, want the 15 before the sixth to the full subject", got)
		}
		stop := meanwhile(10*time.Millisecond, func() {
			if err := stream.Purge(t.Context(), natsjs.WithPurgeSubject(name+".full")); err != nil {
				t.Error(err)
			}
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop()
		last := -1
		for i, m := range testenv.Consume(t, stream, name+".free.*") {
			var n int
			if _, err := fmt.Sscanf(m.ID, "full-%d", &n); err != nil || n < last {
				t.Fatalf("message %d of the free subjects is %s, behind %d: %v", i, m.ID, last, err)
			}
			last = n
		}
	})
}
