package jetstream_test

import (
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

const maxPayload = 1 << 20

// fixture is a sink on a stream of its own, reached through a proxy that can stall.
func fixture(t *testing.T, server *testenv.NATSServer) sinktest.Fixture {
	p := testenv.StartProxy(t, server.Addr())
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	js := server.JetStream(t)
	return sinktest.Fixture{
		Sink:         open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name}),
		Destinations: []string{name + ".a", name + ".b"},
		Features:     sinktest.Features{Headers: true, Offsets: true, Recalls: true, Rejects: true, Stalls: true, Wipes: true},
		MaxBytes:     maxPayload,
		Read: func(t testing.TB, destination string) []sinktest.Record {
			stream, err := js.Stream(deadline(t, 10*time.Second), name)
			if err != nil {
				t.Fatal(err)
			}
			var records []sinktest.Record
			for _, m := range read(t, stream, destination) {
				records = append(records, sinktest.Record{ID: m.id, Value: m.value, Headers: m.headers})
			}
			return records
		},
		Stall: func(testing.TB) func() {
			p.Stall()
			return sync.OnceFunc(p.Heal)
		},
		Wipe: func(t testing.TB) {
			remake(t, js, stream.CachedInfo().Config)
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testenv.InProcessNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, server) })
}

func TestRealConformance(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		f := fixture(t, server)
		f.Features.Durable = true
		f.Restart = func(t testing.TB) { server.Restart(t) }
		return f
	})
}
