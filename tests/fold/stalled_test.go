package fold

import (
	"bytes"
	"context"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestAStalledTable has an entity go through three tables, each with a topic of its own, while the
// publish of the second one is held until a later process has published the third: d of the
// interleavings.
func TestAStalledTable(t *testing.T) {
	testall.Beside(t)
	for name, start := range map[string]func(t *testing.T) (*world.Bus, *testenv.Proxy){
		"kafka": func(t *testing.T) (*world.Bus, *testenv.Proxy) {
			k := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true})
			return world.KafkaBus(k), k.Proxy()
		},
		"nats": func(t *testing.T) (*world.Bus, *testenv.Proxy) {
			n := testenv.StartNATS(t)
			return world.NATSBus(n), testenv.StartProxy(t, n.Addr())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, proxy := start(t)
			s := newScene(t, b, 1, variant{})
			s.daemon.Env["BRIDGE_SINK_URL"] = name + "://" + proxy.Addr()
			s.stallsTheSecondTable(proxy)
		})
	}
}

func (s *scene) stallsTheSecondTable(proxy *testenv.Proxy) {
	s.t.Helper()
	s.start()
	world.AwaitReady(s.t, s.daemon)
	h := s.streams[apart]
	o := h.owners[0]
	e := o.entities[0]
	goes := func(to int, state string) {
		s.t.Helper()
		v, statements := version{live, state}, []statement{o.put(e, to, version{live, state})}
		if e.condition != absent {
			statements = append([]statement{o.drop(e)}, statements...)
		}
		if err := o.commit(context.Background(), []outcome{{e, to, v}}, statements...); err != nil {
			s.t.Fatal(err)
		}
	}
	published := func(state string) {
		s.t.Helper()
		world.Eventually(s.t, time.Minute, state+" is published", func() bool {
			s.receive()
			return s.judge.fold(apart)[e.key] == state
		})
	}
	goes(0, "first")
	published("first")

	// A request to Kafka begins with its size and its kind, which is 0 for Produce.
	topic := []byte(h.tables[1])
	proxy.Block(func(data []byte) bool {
		if s.bus.Kafka != nil {
			return len(data) > 8 && data[4] == 0 && data[5] == 0 && bytes.Contains(data, topic)
		}
		return bytes.Contains(data, append([]byte("HPUB "), topic...))
	})
	goes(1, "second")
	world.Eventually(s.t, time.Minute, "the publish of the second table is held", func() bool { return proxy.Blocked() > 0 })
	proxy.Pass()
	goes(2, "third")
	s.kill()
	s.start()
	published("third")

	held, before := proxy.Open(), s.bus.Count(s.t, h.tables[1])
	proxy.Release()
	if s.bus.Kafka != nil {
		world.Eventually(s.t, time.Minute, "the late message is stored", func() bool { return s.bus.Count(s.t, h.tables[1]) > before })
	} else {
		world.Eventually(s.t, time.Minute, "the connection that was held ends", func() bool { return proxy.Open() < held })
	}
	s.kill()
	s.start()
	if err := s.rest(true); err != nil {
		s.t.Fatal(err)
	}
}
