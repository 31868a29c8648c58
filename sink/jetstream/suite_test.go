package jetstream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

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
		Features:     sinktest.Features{Headers: true, Reads: true, Drops: true},
		Cut:          func(testing.TB) { p.Drop() },
		MaxBytes:     maxPayload,
		Read: func(t testing.TB, destination string) []sinktest.Record {
			stream, err := js.Stream(deadline(t, 10*time.Second), name)
			if err != nil {
				t.Fatal(err)
			}
			return records(read(t, stream, destination))
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

func records(all []seen) []sinktest.Record {
	var records []sinktest.Record
	for _, m := range all {
		records = append(records, sinktest.Record{ID: m.id, Value: m.value, Headers: m.headers})
	}
	return records
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		f := fixture(t, server)
		if server.Process != nil {
			f.Restart = server.Restart
		}
		return f
	})
}

// TestOffsetsOfSharedStreams has each destination on a stream of its own, which the sink finds, and
// to which somebody else publishes.
func TestOffsetsOfSharedStreams(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	sinktest.RunOffsets(t, func(t *testing.T) sinktest.Fixture {
		p := testenv.StartProxy(t, server.Addr())
		streams := make(map[string]natsjs.Stream)
		var destinations, foreign []string
		for range 2 {
			stream := server.CreateStream(t, natsjs.StreamConfig{})
			name := stream.CachedInfo().Config.Name
			streams[name+".a"], destinations, foreign = stream, append(destinations, name+".a"), append(foreign, name+".foreign")
		}
		js := server.JetStream(t)
		stop := meanwhile(0, 2*time.Millisecond, func() {
			for _, subject := range foreign {
				if _, err := js.Publish(context.Background(), subject, []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
		t.Cleanup(func() { stop() })
		return sinktest.Fixture{
			Sink:         open(t, jetstream.Options{URLs: []string{"nats://" + p.Addr()}}),
			Destinations: destinations,
			Features:     sinktest.Features{Headers: true, Reads: true, Drops: true},
			MaxBytes:     maxPayload,
			Cut:          func(testing.TB) { p.Drop() },
			Read: func(t testing.TB, destination string) []sinktest.Record {
				return records(read(t, streams[destination], destination))
			},
		}
	})
}
