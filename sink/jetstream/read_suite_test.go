package jetstream_test

import (
	"testing"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// readerFixture is a sink on a stream of its own, reached through a proxy that can cut.
func readerFixture(t *testing.T, server *testenv.NATSServer) sinktest.ReaderFixture {
	p := testenv.StartProxy(t, server.Addr())
	stream := server.CreateStream(t, natsjs.StreamConfig{AllowDirect: true})
	config := stream.CachedInfo().Config
	name := config.Name
	js := server.JetStream(t)
	options := jetstream.Options{URLs: []string{"nats://" + p.Addr()}, Stream: name, Published: []string{name + ".a"}}
	s := open(t, options)
	options.URLs = []string{server.URL()}
	publisher := open(t, options)
	return sinktest.ReaderFixture{
		Reader: s, Destination: name + ".a", Close: s.Close, MaxBytes: maxPayload / 2,
		Publish: func(t testing.TB, batch []sink.Message) {
			if out, err := publisher.Publish(t.Context(), batch); err != nil || !out.AllAcked() {
				t.Errorf("published %d of %d: %v", out.Acked(), len(batch), err)
			}
		},
		Foreign: func(t testing.TB, n int) {
			for range n {
				for _, subject := range []string{name + ".a", name + ".b"} {
					if _, err := js.Publish(t.Context(), subject, []byte("hello")); err != nil {
						t.Error(err)
					}
				}
			}
		},
		Expire: func(t testing.TB, first uint64) {
			if err := stream.Purge(t.Context(), natsjs.WithPurgeSequence(first)); err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t testing.TB, offsets []uint64) {
			for _, at := range offsets {
				if err := stream.DeleteMsg(t.Context(), at); err != nil {
					t.Fatal(err)
				}
			}
		},
		Cut: func(testing.TB) { p.Drop() },
		Wipe: func(t testing.TB) {
			remake(t, js, config)
			publisher = open(t, options)
		},
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture {
		f := readerFixture(t, server)
		if server.Process != nil {
			f.Restart = server.Restart
		}
		return f
	})
}

// TestALargeReadMeetsNoFault: the server ends each pull whose messages have all come.
func TestALargeReadMeetsNoFault(t *testing.T) {
	t.Parallel()
	const n = 9000
	server := testenv.AnyNATS(t)
	name := server.CreateStream(t, natsjs.StreamConfig{AllowDirect: true}).CachedInfo().Config.Name
	js := server.JetStream(t)
	for i := range n {
		if _, err := js.PublishAsync(name+".a", []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			<-js.PublishAsyncComplete()
		}
	}
	s := open(t, jetstream.Options{
		URLs: []string{server.URL()}, Stream: name, Published: []string{name + ".a"},
		Fault: func(tp string, err error) { t.Errorf("a fault of %s: %v", tp, err) },
	})
	tps, err := s.TPs(t.Context(), []string{name + ".a"})
	if err != nil || len(tps) != 1 {
		t.Fatalf("%+v, %v", tps, err)
	}
	read := 0
	span := sink.Span{TP: tps[0].Name, Incarnation: tps[0].Incarnation, From: tps[0].First, To: tps[0].End}
	if next, err := s.Read(t.Context(), span, func(*sink.Stored) error { read++; return nil }); err != nil || next != span.To || read != n {
		t.Errorf("%d messages are read up to %d, %v", read, next, err)
	}
}
