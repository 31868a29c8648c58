package jetstream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink"
	"bridge/sink/jetstream"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestLoss(t *testing.T) {
	t.Parallel()
	server := testenv.InProcessNATS(t)
	js := server.JetStream(t)

	t.Run("a stream deleted and created again under way ends every Publish with ErrBehind", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		mustPublish(t, s, messages(config.Name+".a", "before", 100, 10))
		remake(t, js, config)
		for range 2 {
			out, err := s.Publish(deadline(t, 30*time.Second), messages(config.Name+".a", "after", 100, 10))
			if !errors.Is(err, sink.ErrBehind) {
				t.Fatalf("Publish returns %d acknowledged, %v; want ErrBehind", out.Acked(), err)
			}
		}
		if err := s.Ready(t.Context()); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Ready returns %v, want ErrBehind", err)
		}
	})

	t.Run("a stream that is missing is waited for when nothing was lost with it", func(t *testing.T) {
		name := testenv.NewStreamName()
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		batch := messages(name+".a", "early", 100, 10)
		done := make(chan error, 1)
		go func() {
			_, err := s.Publish(deadline(t, 30*time.Second), batch)
			done <- err
		}()
		eventually(t, 10*time.Second, "Ready tells of the missing stream", func() bool { return s.Ready(t.Context()) != nil })
		stream := server.CreateStream(t, natsjs.StreamConfig{Name: name})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantWhole(t, read(t, stream, ""), batch)
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("Ready after the fault: %v", err)
		}
	})

	t.Run("a missing stream is created when that is wanted", func(t *testing.T) {
		name := testenv.NewStreamName()
		s := open(t, jetstream.Options{
			URLs: []string{server.URL()}, Stream: name, CreateStream: true, Subjects: []string{name + ".>"}, Duplicates: time.Minute,
		})
		batch := messages(name+".a", "created", 10, 10)
		out := mustPublish(t, s, batch)
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		if config.Storage != natsjs.FileStorage || config.Duplicates != time.Minute {
			t.Errorf("the stream has storage %v and duplicate window %v", config.Storage, config.Duplicates)
		}
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(deadline(t, 30*time.Second), out.Offsets); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify returns %v, want ErrBehind", err)
		}
	})

	t.Run("Verify waits for a missing stream until it is cancelled", func(t *testing.T) {
		s := open(t, jetstream.Options{URLs: []string{server.URL()}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- s.Verify(ctx, []sink.Offset{{TP: testenv.NewStreamName(), Incarnation: "then", Last: 1}})
		}()
		eventually(t, 10*time.Second, "Ready tells of the missing stream", func() bool { return s.Ready(ctx) != nil })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Verify returns %v, want context.Canceled", err)
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("Ready after the end of Verify: %v", err)
		}
	})

	t.Run("a loss that others fill up while it is looked at shows to Verify", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		lost := mustPublish(t, s, messages(config.Name+".a", "before", 10, 10)).Offsets
		// As after a restore of what it held before.
		lost[0].Last += 5
		s = open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		looks := watchLooks(t, server.URL(), config.Name)
		verified := make(chan error, 1)
		go func() { verified <- s.Verify(deadline(t, 30*time.Second), lost) }()
		// With the second one the first is answered.
		for range 2 {
			<-looks
		}
		mustPublish(t, s, messages(config.Name+".a", "after", 100, 10))
		if err := <-verified; !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Verify returns %v, want ErrBehind", err)
		}
	})

	t.Run("a stream that was created again and has grown past the offset shows to Verify", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		offset := mustPublish(t, open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name}), messages(config.Name+".a", "before", 10, 4)).Offsets[0]
		if offset.Last != 10 || offset.ID != "before-9" {
			t.Fatalf("offset %+v", offset)
		}
		remake(t, js, config)
		mustPublish(t, open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name}), messages(config.Name+".a", "other", 30, 4))
		for name, m := range map[string]sink.Offset{
			"by the time of its making": {TP: offset.TP, Incarnation: offset.Incarnation, Last: offset.Last},
			"by the message there":      {TP: offset.TP, Last: offset.Last, ID: offset.ID},
		} {
			s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
			if err := s.Verify(deadline(t, 30*time.Second), []sink.Offset{m}); !errors.Is(err, sink.ErrBehind) {
				t.Errorf("%s: Verify returns %v, want ErrBehind", name, err)
			}
		}
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		if err := s.Verify(deadline(t, 30*time.Second), []sink.Offset{{TP: offset.TP, Last: offset.Last}}); err != nil {
			t.Errorf("an offset that knows neither: %v", err)
		}
	})

	t.Run("a message that was removed proves nothing", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		offset := mustPublish(t, s, messages(name+".a", "removed", 10, 4)).Offsets[0]
		mustPublish(t, s, messages(name+".a", "later", 10, 4))
		if err := stream.DeleteMsg(deadline(t, 10*time.Second), offset.Last); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(deadline(t, 30*time.Second), []sink.Offset{offset}); err != nil {
			t.Error(err)
		}
	})

	t.Run("what Verify was told is held against the stream by Publish", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		config := stream.CachedInfo().Config
		first := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		out := mustPublish(t, first, messages(config.Name+".a", "before", 100, 10))
		second := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: config.Name})
		if err := second.Verify(deadline(t, 10*time.Second), out.Offsets); err != nil {
			t.Fatal(err)
		}
		remake(t, js, config)
		if _, err := second.Publish(deadline(t, 30*time.Second), messages(config.Name+".a", "after", 10, 10)); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("Publish returns %v, want ErrBehind", err)
		}
	})
}

// TestAnAccountThatMayNotReadMessages gets an answer about the stream, and none about its messages:
// nobody listens there. That proves nothing.
func TestAnAccountThatMayNotReadMessages(t *testing.T) {
	t.Parallel()
	broker := testenv.InProcessNATS(t, func(o *server.Options) { o.JetStream = false })
	info := func(m *nats.Msg) {
		if err := m.Respond([]byte(`{"type": "io.nats.jetstream.api.v1.stream_info_response", "config": {"name": "T", "subjects": ["T.>"]},
			"created": "2026-01-01T00:00:00Z", "state": {"messages": 10, "first_seq": 1, "last_seq": 10}}`)); err != nil {
			t.Error(err)
		}
	}
	nc := broker.Connect(t)
	if _, err := nc.Subscribe("$JS.API.STREAM.INFO.T", info); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: "T"})
	if err := s.Verify(deadline(t, 30*time.Second), []sink.Offset{{TP: "T", Last: 10, ID: "before-9"}}); err != nil {
		t.Error(err)
	}
	if err := s.Verify(deadline(t, 30*time.Second), []sink.Offset{{TP: "T", Last: 11, ID: "before-10"}}); !errors.Is(err, sink.ErrBehind) {
		t.Errorf("of a stream that has lost a message Verify returns %v, want ErrBehind", err)
	}
}

// watchLooks tells of each question for a stream.
func watchLooks(t *testing.T, url, stream string) <-chan *nats.Msg {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	looks := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("$JS.API.STREAM.INFO."+stream, looks); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return looks
}
