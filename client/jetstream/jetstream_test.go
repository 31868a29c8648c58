package jetstream_test

import (
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/client/clienttest"
	"bridge/client/jetstream"
	"bridge/internal/testall"
	"bridge/internal/testenv"
	"bridge/sink"
	sinkjetstream "bridge/sink/jetstream"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func fixture(t testing.TB, server *testenv.NATSServer) clienttest.Fixture {
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	config := stream.CachedInfo().Config
	publisher := func(t testing.TB) sink.Sink {
		s, err := sinkjetstream.Open(sinkjetstream.Options{URLs: []string{server.URL()}, Stream: config.Name, Published: []string{config.Name + ".a"}})
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
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			return publisher(t)
		},
	}
}

func TestOnAServer(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture { return fixture(t, server) })
}

func TestOnARealServer(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.StartNATS(t)
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		f := fixture(t, server)
		f.Restart = func(t testing.TB) { server.Restart(t) }
		return f
	})
}

func TestOptionsNeedURLs(t *testing.T) {
	if _, err := jetstream.New(jetstream.Options{}); err == nil || !strings.Contains(err.Error(), "URLs") {
		t.Errorf("New returns %v", err)
	}
}

// BenchmarkTable needs a real server: see docs/performance.md.
func BenchmarkTable(b *testing.B) { clienttest.Bench(b, fixture(b, testenv.NATS(b))) }

// BenchmarkEvents needs a real server: see docs/performance.md.
func BenchmarkEvents(b *testing.B) { clienttest.BenchEvents(b, fixture(b, testenv.NATS(b))) }
