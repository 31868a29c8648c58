package clienttest_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/sink"
	sinkjetstream "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func onStream(t testing.TB, server *testenv.NATSServer) clienttest.Fixture {
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	config := stream.CachedInfo().Config
	publisher := func(t testing.TB) sink.Sink {
		s, err := sinkjetstream.Open(sinkjetstream.Options{
			Connection: sinkjetstream.Connection{URLs: []string{server.URL()}, Stream: config.Name},
			Published:  []string{config.Name + ".a"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	bus, err := jetstream.New(jetstream.Options{URLs: []string{server.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	return clienttest.Fixture{
		Bus: bus, Sink: publisher(t), Destination: config.Name + ".a", Reads: config.Name + ".*",
		Purge: func(t testing.TB) {
			if err := stream.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		Remake: func(t testing.TB) sink.Sink {
			js := server.JetStream(t)
			if err := js.DeleteStream(t.Context(), config.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := testenv.CreateStream(t.Context(), js, config); err != nil {
				t.Fatal(err)
			}
			return publisher(t)
		},
	}
}

func TestOnAServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		f := onStream(t, server)
		if server.Process != nil {
			f.Restart = server.Restart
		}
		return f
	})
}

// TestAHandlerThatTakesLong has a handler go on for longer than the server waits for an
// acknowledgement. No other process is given the event meanwhile.
func TestAHandlerThatTakesLong(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	f := onStream(t, testenv.AnyNATS(t))
	w := clienttest.NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(2, 2)
	given := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range 2 {
		o := client.Options{Stream: clienttest.Stream, Destinations: []string{f.Reads}, Logger: slog.New(slog.DiscardHandler)}
		events, err := client.NewEvents(f.Bus, "slow", o, func(ctx context.Context, e client.Event) error {
			given <- e.ID
			if e.ID == w.IDs[0] {
				return backoff.Pause(ctx, 25*time.Second)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := events.Run(ctx); err != nil {
				t.Errorf("Run ends with %v", err)
			}
		})
	}
	for i, want := range w.IDs {
		if got := <-given; got != want {
			t.Errorf("event %d handed out is %s, want %s", i+1, got, want)
		}
	}
}

func TestOptionsNeedURLs(t *testing.T) {
	if _, err := jetstream.New(jetstream.Options{}); err == nil || !strings.Contains(err.Error(), "URLs") {
		t.Errorf("New returns %v", err)
	}
}

// TestSubjectsThatNoStreamTakes are waited for, with a fault that names them.
func TestSubjectsThatNoStreamTakes(t *testing.T) {
	t.Parallel()
	bus, err := jetstream.New(jetstream.Options{URLs: []string{testenv.AnyNATS(t).URL()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	opening := client.Opening{Destinations: []string{"nobody.takes.this"}, Fault: func(_ string, err error) {
		if strings.Contains(err.Error(), `no stream takes the subjects ["nobody.takes.this"]`) {
			cancel()
		}
	}}
	if err := bus.Consume(ctx, client.Subscription{Opening: opening, Group: "g"}, nil); err != nil || context.Cause(ctx) != context.Canceled {
		t.Errorf("Consume ends with %v, %v", err, context.Cause(ctx))
	}
}
