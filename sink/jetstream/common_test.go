package jetstream_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
)

// at says how to reach a server, and names the stream, empty for none.
func at(url, stream string) jetstream.Connection {
	return jetstream.Connection{URLs: []string{url}, Stream: stream}
}

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t testing.TB, o jetstream.Options) *jetstream.Sink {
	t.Helper()
	if o.Logger == nil && testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s := must.Get(jetstream.Open(o))(t)
	t.Cleanup(func() { must.OK(t, s.Close()) })
	return s
}

func onStream(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (s *jetstream.Sink, stream natsjs.Stream, name string) {
	t.Helper()
	stream = server.CreateStream(t, config)
	name = stream.CachedInfo().Config.Name
	return open(t, jetstream.Options{Connection: at(server.URL(), name)}), stream, name
}

// behindProxy is onStream with a sink that reaches the server through a proxy.
func behindProxy(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (p *testenv.Proxy, s *jetstream.Sink, stream natsjs.Stream, name string) {
	t.Helper()
	p = testenv.StartProxy(t, server.Addr())
	stream = server.CreateStream(t, config)
	name = stream.CachedInfo().Config.Name
	return p, open(t, jetstream.Options{Connection: at("nats://"+p.Addr(), name)}), stream, name
}

func update(t testing.TB, server *testenv.NATSServer, name string, change func(*natsjs.StreamConfig)) {
	t.Helper()
	js := server.JetStream(t)
	stream, err := js.Stream(t.Context(), name)
	if err == nil {
		config := stream.CachedInfo().Config
		change(&config)
		_, err = js.UpdateStream(t.Context(), config)
	}
	if err != nil {
		t.Error(err)
	}
}

// messages returns n messages of a series, spread over keys.
func messages(subject, series string, n, keys int) []sink.Message {
	batch := make([]sink.Message, n)
	for i := range batch {
		batch[i] = sink.Message{
			Destination: subject, Key: fmt.Appendf(nil, "%s-%d", series, i%keys), ID: fmt.Sprintf("%s-%d", series, i),
			Value: fmt.Appendf(nil, `{"series":%q,"n":%d,"pad":"%0160d"}`, series, i, i),
			Type:  "TestEvent", Version: "1.0.0", Domain: "bridge", Stream: series, Shard: "db.t", RowID: uint64(i), Origin: sink.FromTail, Time: time.Now(),
			State: sink.State{Epoch: 1_760_000_000_000, Seq: uint64(i), Index: uint32(i), Hash: 1 << 31},
		}
	}
	return batch
}

// wantWhole fails the test unless the stream holds what was sent, once and each key in its order.
// Each batch has a series of its own.
func wantWhole(t testing.TB, got []sinktest.Record, sent ...[]sink.Message) {
	t.Helper()
	if n := sinktest.Compare(t, slices.Concat(sent...), got, false); n > 0 {
		t.Errorf("%d messages are stored twice", n)
	}
}

func remake(t testing.TB, js natsjs.JetStream, config natsjs.StreamConfig) (stream natsjs.Stream) {
	t.Helper()
	ctx := sinktest.Deadline(t)
	must.OK(t, js.DeleteStream(ctx, config.Name))
	// The server may still be removing the files of the old one.
	sinktest.Until(t, "create the stream again", func() bool {
		var err error
		stream, err = js.CreateStream(ctx, config)
		return err == nil
	})
	return stream
}
