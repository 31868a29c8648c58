package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
)

const maxPayload = 1 << 20

// fixture is a sink that is reached through a proxy, on one stream, or on one for each of its
// destinations, which it finds and to which others publish. With replicas leaders move, too.
func fixture(t *testing.T, servers []*testenv.NATSServer, shared bool, replicas int) sinktest.Fixture {
	server := servers[0]
	p := testenv.StartProxy(t, servers[len(servers)-1].Addr())
	js, nc := server.JetStream(t), server.Connect(t)
	options := jetstream.Options{Connection: at("nats://"+p.Addr(), "")}
	configs := make(map[string]natsjs.StreamConfig)
	var destinations []string
	for range 2 {
		name := options.Stream
		if name == "" {
			name = server.CreateStream(t, natsjs.StreamConfig{Replicas: replicas}).CachedInfo().Config.Name
		}
		if !shared {
			options.Stream = name
		}
		destinations = append(destinations, name+"."+string(rune('a'+len(destinations))))
		configs[destinations[len(destinations)-1]] = natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}}
	}
	stream := func(t testing.TB, destination string) natsjs.Stream {
		return must.Get(js.Stream(sinktest.Deadline(t), configs[destination].Name))(t)
	}
	cuts := 0
	f := sinktest.Fixture{
		Sink: open(t, options), Destinations: destinations, MaxBytes: maxPayload,
		Features: sinktest.Features{Headers: true, Reads: true, Drops: true},
		Cut: func(testing.TB) {
			if cuts++; replicas > 1 && cuts%2 == 0 {
				// A request that meets no leader asks nobody to step down.
				_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+configs[destinations[0]].Name, nil, time.Second)
			}
			p.Drop()
		},
		Read: func(t testing.TB, destination string) []sinktest.Record {
			s := stream(t, destination)
			if replicas > 1 {
				awaitReplica(t, s)
			}
			return testenv.Consume(t, s, destination)
		},
		Stall: func(testing.TB) func() { p.Stall(); return sync.OnceFunc(p.Heal) },
	}
	if !shared {
		f.Wipe = func(t testing.TB) { remake(t, js, configs[destinations[0]]) }
		return f
	}
	stop := meanwhile(5*time.Millisecond, func() {
		for _, c := range configs {
			if _, err := js.Publish(context.Background(), c.Name+".foreign", []byte("x")); err != nil && replicas <= 1 {
				t.Error(err)
			}
		}
	})
	t.Cleanup(stop)
	return f
}

// meanwhile runs f again and again, with a pause between, until the returned function is called.
func meanwhile(pause time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for ctx.Err() == nil {
			f()
			<-tick.C
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// awaitReplica waits until the replica that is read has what the leader has: it may lag behind.
func awaitReplica(t testing.TB, stream natsjs.Stream) {
	t.Helper()
	sinktest.Until(t, "the replica that is read has what the leader has", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		before, err := stream.Info(ctx)
		return err == nil && before.Cluster.Leader != "" && uint64(len(testenv.Consume(t, stream, ""))) >= before.State.Msgs
	})
}

// TestConformance leaves out in atomic batches what does not hold of batches that are whole or not
// there: a rejected message leaves nothing of its batch acknowledged, and a stream that was made
// again has no claim. Repeats are stored: batches have no message ids.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	servers := []*testenv.NATSServer{server}
	t.Run("one stream", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
			f := fixture(t, servers, false, 1)
			if server.Process != nil {
				f.Restart = server.Restart
			}
			return f
		})
	})
	t.Run("shared streams", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, servers, true, 1) })
	})
	t.Run("atomic batches", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
			p := testenv.StartProxy(t, server.Addr())
			stream, options := claimed(t, server, natsjs.StreamConfig{})
			options.URLs = []string{"nats://" + p.Addr()}
			return sinktest.Fixture{
				Sink: open(t, options), Destinations: options.Readable, Features: sinktest.Features{Headers: true, Reads: true},
				Cut: func(testing.TB) { p.Drop() },
				Read: func(t testing.TB, destination string) []sinktest.Record {
					return testenv.Consume(t, stream, destination)
				},
				Stall: func(testing.TB) func() { p.Stall(); return sync.OnceFunc(p.Heal) },
			}
		})
	})
	t.Run("reader", func(t *testing.T) {
		sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture {
			f := readerFixture(t, server)
			if server.Process != nil {
				f.Restart = server.Restart
			}
			return f
		})
	})
}

// transactionalFixture is a stream that processes reach by a URL.
func transactionalFixture(t *testing.T, server *testenv.NATSServer, url string, replicas int) sinktest.TransactionalFixture {
	stream, options := claimed(t, server, natsjs.StreamConfig{Replicas: replicas})
	options.URLs = []string{url}
	return sinktest.TransactionalFixture{
		Open: func(t testing.TB) sink.Transactional { return open(t, options) }, Destination: options.Stream + ".a",
		OnStep: func(s sink.Sink, hook func(string)) { jetstream.OnStep(s.(*jetstream.Sink), hook) },
		Read: func(t testing.TB, destination string) []sinktest.Record {
			if replicas > 1 {
				awaitReplica(t, stream)
			}
			return testenv.Consume(t, stream, destination)
		},
	}
}

// topologies has a server by the number of replicas of streams: one, and with more a cluster of
// three.
func topologies(t *testing.T, more bool) map[int]*testenv.NATSServer {
	servers := map[int]*testenv.NATSServer{1: testenv.OwnNATS(t)}
	if more {
		servers[3] = testenv.OwnNATSCluster(t)[0]
	}
	return servers
}

func TestAZombieAtEachStepOfABatch(t *testing.T) {
	t.Parallel()
	for replicas, server := range topologies(t, testall.On()) {
		t.Run(fmt.Sprint("replicas: ", replicas), func(t *testing.T) {
			sinktest.Zombies(t, func(t *testing.T) sinktest.TransactionalFixture {
				return transactionalFixture(t, server, server.URL(), replicas)
			})
		})
	}
}

func TestProcessesThatStartAtOnce(t *testing.T) {
	t.Parallel()
	for replicas, server := range topologies(t, testall.On()) {
		f := transactionalFixture(t, server, server.URL(), replicas)
		sinktest.BeginTogether(t, f, f.Open(t), f.Open(t), f.Open(t))
	}
}

// TestHarmAtEachStepOfABatch ends the connection or the server, or moves the leader.
func TestHarmAtEachStepOfABatch(t *testing.T) {
	t.Parallel()
	harm := func(name string, server *testenv.NATSServer, replicas int, harm func(t testing.TB, p *testenv.Proxy, stream string)) {
		t.Run(fmt.Sprint(name, ", replicas: ", replicas), func(t *testing.T) {
			t.Parallel()
			p := testenv.StartProxy(t, server.Addr())
			f := transactionalFixture(t, server, "nats://"+p.Addr(), replicas)
			stream, _, _ := strings.Cut(f.Destination, ".")
			sinktest.HarmAtEachStep(t, f, func(t testing.TB, _ sink.Sink) { harm(t, p, stream) }, 1, 500, 10)
		})
	}
	killed := testenv.StartNATS(t)
	harm("the server is killed", killed, 1, func(t testing.TB, _ *testenv.Proxy, _ string) { killed.Restart(t) })
	for replicas, server := range topologies(t, testall.On()) {
		harm("the connection is cut", server, replicas, func(_ testing.TB, p *testenv.Proxy, _ string) { p.Drop() })
		if replicas > 1 {
			nc := server.Connect(t)
			harm("the leader moves", server, replicas, func(_ testing.TB, _ *testenv.Proxy, stream string) {
				// A request that meets no leader asks nobody to step down.
				_, _ = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, time.Second)
			})
		}
	}
}

// TestLeaderChanges has three replicas, to which others publish, too.
func TestLeaderChanges(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, servers, true, 3) })
}

// TestAStreamWithoutALeader: the server that is left may not have heard of all that was
// acknowledged, so what it tells of the stream does not count.
func TestAStreamWithoutALeader(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	s, stream, name := onStream(t, servers[0], natsjs.StreamConfig{Replicas: 3})
	sinktest.MustPublish(t, s, messages(name+".a", "k", 100, 5))
	for _, other := range servers[1:] {
		other.Kill()
	}
	sinktest.Until(t, "the server notices", func() bool {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := stream.Info(short)
		return err == nil && info.Cluster.Leader == ""
	})
	ctx, found := sinktest.Deadline(t), make(chan []sink.TP, 1)
	go func() {
		tps, _ := s.TPs(ctx, []string{name + ".a"})
		found <- tps
	}()
	sinktest.Until(t, "the sink says what is missing", func() bool {
		if len(found) > 0 {
			t.Fatalf("it believes %+v", <-found)
		}
		return slices.ContainsFunc(s.Outages(), func(o outage.Outage) bool { return strings.Contains(o.Error(), "has no leader") })
	})
	servers[1].Start(t)
	if tps := <-found; len(tps) != 1 || tps[0].End != 101 {
		t.Errorf("the TPs are %+v", tps)
	}
}

// readerFixture is a sink on a stream of its own, reached through a proxy that can cut.
func readerFixture(t *testing.T, server *testenv.NATSServer) sinktest.ReaderFixture {
	p := testenv.StartProxy(t, server.Addr())
	stream := server.CreateStream(t, natsjs.StreamConfig{AllowDirect: true})
	config := stream.CachedInfo().Config
	name := config.Name
	js := server.JetStream(t)
	options := jetstream.Options{Connection: at("nats://"+p.Addr(), name), Published: []string{name + ".a"}}
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
			must.OK(t, stream.Purge(t.Context(), natsjs.WithPurgeSequence(first)))
		},
		Delete: func(t testing.TB, offsets []uint64) {
			for _, at := range offsets {
				must.OK(t, stream.DeleteMsg(t.Context(), at))
			}
		},
		Cut: func(testing.TB) { p.Drop() },
		Wipe: func(t testing.TB) {
			remake(t, js, config)
			publisher = open(t, options)
		},
	}
}
