package jetstream_test

import (
	"sync"
	"testing"

	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// claimed returns a stream that takes atomic batches and claims, and options that publish to it.
func claimed(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (natsjs.Stream, jetstream.Options) {
	t.Helper()
	name := testenv.NewStreamName()
	config.Name, config.Subjects, config.AllowAtomicPublish = name, []string{name + ".>"}, true
	stream := server.CreateStream(t, config)
	return stream, jetstream.Options{URLs: []string{server.URL()}, Stream: name, Readable: []string{name + ".a", name + ".b"}, Claim: name + ".claim"}
}

// exactlyOnce is a fixture whose sink publishes in atomic batches.
func exactlyOnce(t *testing.T, server *testenv.NATSServer) sinktest.Fixture {
	p := testenv.StartProxy(t, server.Addr())
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	options.URLs = []string{"nats://" + p.Addr()}
	return sinktest.Fixture{
		Sink:         open(t, options),
		Destinations: []string{options.Stream + ".a", options.Stream + ".b"},
		Features:     sinktest.Features{Headers: true, Reads: true},
		Cut:          func(testing.TB) { p.Drop() },
		Read: func(t testing.TB, destination string) []sinktest.Record {
			return records(events(t, stream, destination))
		},
		Stall: func(testing.TB) func() {
			p.Stall()
			return sync.OnceFunc(p.Heal)
		},
	}
}

// events is read, with the events' ids: those of messages in batches are in no header of the
// server's.
func events(t testing.TB, stream natsjs.Stream, subject string) []seen {
	t.Helper()
	all := read(t, stream, subject)
	for i := range all {
		all[i].id = all[i].headers["eiffel-id"]
	}
	return all
}

// TestConformanceOfBatches leaves out what does not hold of batches that are whole or not there: a
// rejected message leaves nothing of its batch acknowledged, and a stream that was made again has
// no claim. Repeats are stored: batches have no message ids.
func TestConformanceOfBatches(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return exactlyOnce(t, server) })
}
