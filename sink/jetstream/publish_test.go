package jetstream_test

import (
	"runtime"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// TestPublish counts goroutines: no other test runs beside it.
func TestPublish(t *testing.T) {
	broker := testenv.OwnNATS(t)

	t.Run("repeats take no round trip each", func(t *testing.T) {
		first, _, name := onStream(t, broker, natsjs.StreamConfig{})
		batch := messages(name+".a", "row", 1000, 1000)
		mustPublish(t, first, batch)
		p := testenv.StartProxy(t, broker.Addr())
		s := open(t, jetstream.Options{Connection: at("nats://"+p.Addr(), name)})
		p.Latency(10 * time.Millisecond)
		began := time.Now()
		if out := mustPublish(t, s, batch); out.Duplicates != len(batch) {
			t.Errorf("%d of %d are duplicates", out.Duplicates, len(batch))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d repeats took %s at 20 ms a round trip", len(batch), took)
		}
	})

	t.Run("a subject that moves to another stream is followed", func(t *testing.T) {
		name := testenv.NewStreamName()
		broker.CreateStream(t, natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
		s := open(t, jetstream.Options{Connection: at(broker.URL(), "")})
		mustPublish(t, s, messages(name+".a", "before", 10, 10))
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.Subjects = []string{name + ".elsewhere"} })
		other := broker.CreateStream(t, natsjs.StreamConfig{Subjects: []string{name + ".a"}})
		after := messages(name+".a", "after", 100, 10)
		mustPublish(t, s, after)
		wantWhole(t, testenv.Consume(t, other, ""), after)
	})

	t.Run("a limit that changes under way is followed", func(t *testing.T) {
		s, _, name := onStream(t, broker, natsjs.StreamConfig{})
		mustPublish(t, s, messages(name+".a", "before", 10, 10))
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 2048 })
		batch := messages(name+".a", "after", 20, 20)
		batch[10].Value = make([]byte, 3000)
		out, err := s.Publish(deadline(t, time.Minute), batch)
		if err != nil || out.Acked() != 10 || len(out.Rejected) != 1 || out.Rejected[0].Index != 10 || out.Status[11] != sink.Pending {
			t.Fatalf("the outcome is %+v, %v", out, err)
		}
		update(t, broker, name, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 4096 })
		eventually(t, 10*time.Second, "it is taken", func() bool {
			out, err := s.Publish(deadline(t, time.Minute), batch[10:11])
			return err == nil && out.AllAcked()
		})
		mustPublish(t, s, batch[11:])
	})

	t.Run("a destination that is not a subject is rejected", func(t *testing.T) {
		s, _, name := onStream(t, broker, natsjs.StreamConfig{})
		for _, subject := range []string{name + ".a b", name + "..a", name + ".*", "", "." + name} {
			out, err := s.Publish(deadline(t, 10*time.Second), messages(subject, "bad", 1, 1))
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
		mustPublish(t, s, messages(name+".a", "some", 100, 10))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// The library's own goroutines and the server's end a moment after the connection.
		eventually(t, 10*time.Second, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
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
	mustPublish(t, s, before)
	mustPublish(t, s, before)
	if first := <-sessions; first != name || len(sessions) != 0 {
		t.Errorf("two batches over one connection told of sessions with %s and %d others", first, len(sessions))
	}
	begun := time.Now()
	p.Freeze()
	mustPublish(t, s, during)
	if took := time.Since(begun); len(sessions) == 0 || took > 40*time.Second {
		t.Errorf("%d new connections within %s", len(sessions), took)
	}
	wantWhole(t, testenv.Consume(t, stream, ""), before, during)
}
