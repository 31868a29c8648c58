package jetstream_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// wantThere fails the test unless each message that a batch's outcome puts on a stream, as it is
// now, is there. It returns how many are.
func wantThere(t *testing.T, stream natsjs.Stream, batch []sink.Message, out sink.Outcome) (n int) {
	t.Helper()
	all := read(t, stream, "")
	created := stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	for i, at := range out.At {
		switch {
		case out.TPs[at.TP].Incarnation != created:
		case at.Offset == 0 || at.Offset > uint64(len(all)) || all[at.Offset-1].id != batch[i].ID:
			t.Fatalf("message %d is not at %+v, the stream has %d", i, at, len(all))
		default:
			n++
		}
	}
	return n
}

func TestAStreamThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	js := server.JetStream(t)
	for name, repeats := range map[string]int{"takes what is published with fences": 0, "takes what is published without fences": 2} {
		t.Run(name, func(t *testing.T) {
			config := server.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config
			var sessions atomic.Int64
			s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name, Session: func(stream string) {
				if stream != config.Name {
					t.Errorf("a session of %q", stream)
				}
				sessions.Add(1)
			}})
			before := messages(config.Name+".a", "before", 200, 10)
			for range 1 + repeats {
				mustPublish(t, s, before)
			}
			stream := remake(t, js, config)
			// Without fences one answer shows it, and those with it still name the former stream.
			first, second := messages(config.Name+".a", "first", 100, 10), messages(config.Name+".a", "second", 100, 10)
			mustPublish(t, s, first)
			out := mustPublish(t, s, second)
			wantWhole(t, read(t, stream, ""), first, second)
			if n := wantThere(t, stream, second, out); n != len(second) || len(out.TPs) != 1 {
				t.Errorf("%d messages are said to lie on the stream as it is now, of %+v", n, out.TPs)
			}
			if n := sessions.Load(); n != 2 {
				t.Errorf("%d sessions, want one for each making of the stream", n)
			}
		})
	}

	t.Run("has no messages that the former one has acknowledged to the same call", func(t *testing.T) {
		for try := range 20 {
			s, stream, name := onStream(t, server, natsjs.StreamConfig{})
			batch := messages(name+".a", fmt.Sprint("long", try), 30_000, 100)
			done := make(chan sink.Outcome, 1)
			go func() {
				out, err := s.Publish(deadline(t, 4*time.Minute), batch)
				if err != nil || !out.AllAcked() {
					t.Errorf("%d of %d acknowledged: %v", out.Acked(), len(batch), err)
				}
				done <- out
			}()
			eventually(t, 10*time.Second, "messages are stored", func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.LastSeq > 500
			})
			again := remake(t, js, stream.CachedInfo().Config)
			out := <-done
			if n := wantThere(t, again, batch, out); n > 0 && n < len(batch) {
				if len(out.TPs) != 2 {
					t.Errorf("the TPs are %+v", out.TPs)
				}
				return
			}
		}
		t.Error("no call has met both")
	})

	t.Run("is waited for", func(t *testing.T) {
		name := testenv.NewStreamName()
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		batch := messages(name+".a", "early", 100, 10)
		done := sinktest.Publishing(deadline(t, 4*time.Minute), s, batch)
		eventually(t, 10*time.Second, "Ready tells of the missing stream", func() bool { return s.Ready(t.Context()) != nil })
		stream := server.CreateStream(t, natsjs.StreamConfig{Name: name})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantWhole(t, read(t, stream, ""), batch)
		eventually(t, time.Minute, "it is ready after the fault", func() bool { return s.Ready(t.Context()) == nil })
	})

}
