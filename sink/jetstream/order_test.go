package jetstream_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)

	t.Run("what was stored without an answer is found even when its id is forgotten", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{Duplicates: 100 * time.Millisecond})
		// Warm, the worker sends the whole batch at once.
		warm, batch := messages(name+".a", "warm", 500, 10), messages(name+".a", "mute", 200, 10)
		mustPublish(t, s, warm)
		p.DropAnswers()
		done := make(chan sink.Outcome, 1)
		go func() {
			out, err := s.Publish(deadline(t, 4*time.Minute), batch)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		eventually(t, 3*time.Second, "the batch is stored", func() bool { return len(testenv.Consume(t, stream, "")) == 700 })
		stored := time.Now()
		eventually(t, 3*time.Second, "the ids are forgotten", func() bool { return time.Since(stored) > 300*time.Millisecond })
		p.Heal()
		if out := <-done; !out.AllAcked() || out.Duplicates != 0 || out.At[len(out.At)-1].Offset != 700 {
			t.Errorf("%d acknowledged, %d duplicates, they lie at %+v", out.Acked(), out.Duplicates, out.At)
		}
		wantWhole(t, testenv.Consume(t, stream, ""), warm, batch)
	})

	t.Run("a worker that is warm asks for few answers", func(t *testing.T) {
		s, stream, name := onStream(t, server, natsjs.StreamConfig{})
		warm, batch := messages(name+".a", "warm", 2000, 50), messages(name+".a", "few", 2000, 50)
		mustPublish(t, s, warm)
		var answers atomic.Int64
		nc := server.Connect(t)
		if _, err := nc.Subscribe("_INBOX.>", func(m *nats.Msg) {
			// Others use the server, too.
			if bytes.Contains(m.Data, []byte(name)) {
				answers.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		out := mustPublish(t, s, batch)
		if last := out.At[len(batch)-1]; out.Duplicates != 0 || last.Offset != 4000 {
			t.Errorf("%d duplicates, the last message is at %+v", out.Duplicates, last)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := answers.Load(); n == 0 || n > 100 {
			t.Errorf("%d answers to %d messages", n, len(batch))
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
		mustPublish(t, s, warm)
		batch := messages(name+".full", "full", 100, 10)
		for i := range batch {
			if i%3 != 0 {
				batch[i].Destination = fmt.Sprintf("%s.free.%d", name, i)
			}
		}
		done := sinktest.Publishing(deadline(t, 4*time.Minute), s, batch)
		eventually(t, 10*time.Second, "Ready tells of the full subject", func() bool { return s.Ready(t.Context()) != nil })
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
