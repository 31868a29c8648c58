package jetstream_test

import (
	"context"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// publishMuted publishes a batch, whose answers are lost until it is stored.
func publishMuted(t *testing.T, s *jetstream.Sink, p *testenv.Proxy, stream natsjs.Stream, batch []sink.Message) sink.Outcome {
	t.Helper()
	stored := func() int {
		info, err := stream.Info(deadline(t, 10*time.Second), natsjs.WithSubjectFilter(batch[0].Destination))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.State.Subjects[batch[0].Destination])
	}
	before := stored()
	p.Mute()
	received := p.Received()
	done := make(chan sink.Outcome, 1)
	go func() {
		out, err := s.Publish(deadline(t, 4*time.Minute), batch)
		if err != nil || !out.AllAcked() {
			t.Errorf("%d of %d acknowledged: %v", out.Acked(), len(batch), err)
		}
		done <- out
	}()
	eventually(t, 3*time.Second, "the batch is stored", func() bool { return stored() == before+len(batch) })
	// The answers may still be on their way to the proxy.
	eventually(t, 3*time.Second, "an answer is lost", func() bool { return p.Received() > received })
	p.Heal()
	return <-done
}

// lostAnswers wants messages whose answers were lost to lie where the first attempt has put them,
// with fences and without.
func lostAnswers(t *testing.T, server *testenv.NATSServer) {
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	p := testenv.StartProxy(t, server.Addr())
	s := open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name})
	warm := messages(name+".a", "warm", 500, 500)
	mustPublish(t, s, warm)
	fenced := messages(name+".a", "fenced", 200, 200)
	for i := 1; i < len(fenced); i += 2 {
		fenced[i].Again = true
	}
	out := publishMuted(t, s, p, stream, fenced)
	for i, at := range out.At {
		if want := (sink.At{Offset: uint64(501 + i), Known: true}); at != want {
			t.Fatalf("with fences, message %d lies at %+v, want %+v", i, at, want)
		}
	}
	// Repeats end the fenced series, and messages of others keep the next ones without fences: the
	// worker never has 256 answers in a row without one of either.
	js := server.JetStream(t)
	foreign := func() {
		if _, err := js.Publish(context.Background(), name+".foreign", []byte("x")); err != nil {
			t.Error(err)
		}
	}
	mustPublish(t, s, warm)
	mustPublish(t, s, messages(name+".a", "unfenced-warm", 250, 250))
	foreign()
	stop := meanwhile(0, 2*time.Millisecond, foreign)
	defer stop()
	mustPublish(t, s, messages(name+".a", "unfenced-warmer", 250, 250))
	unfenced := messages(name+".a", "unfenced", 200, 200)
	out = publishMuted(t, s, p, stream, unfenced)
	stop()
	found := make(map[string]uint64)
	for i, m := range read(t, stream, "") {
		found[m.id] = uint64(i) + 1
	}
	if out.Duplicates != 0 {
		t.Errorf("%d messages count as duplicates at their first sending", out.Duplicates)
	}
	for i, at := range out.At {
		if want := (sink.At{Offset: found[unfenced[i].ID], Known: true, Duplicate: true}); at != want {
			t.Fatalf("without fences, message %d lies at %+v, want %+v", i, at, want)
		}
	}
	created := stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	if want := (sink.TPRef{Name: name, Incarnation: created}); len(out.TPs) != 1 || out.TPs[0] != want {
		t.Errorf("the TPs are %+v", out.TPs)
	}
}

func TestMessagesWithALostAnswer(t *testing.T) {
	t.Parallel()
	lostAnswers(t, testenv.AnyNATS(t))
}
