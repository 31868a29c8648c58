package fold

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

type variant struct {
	// masked: the column secret is masked. filtered: rows that are hidden do not match FILTER.
	masked, filtered bool
	// compacted: the topic of together is compacted all the time, and has tombstones. forgets:
	// these go after some seconds, so that copies of the checkpoint are older. Else they stay.
	compacted, forgets bool
}

// variantOf draws a variant. Of two buses that differ in other, one has each setting.
func variantOf(seed uint64, b *world.Bus, other bool) variant {
	n := rand.New(rand.NewPCG(seed, 2)).IntN(16)
	if other {
		n = ^n
	}
	compacted := n&4 > 0 && b.Kafka != nil
	return variant{masked: n&1 > 0, filtered: n&2 > 0, compacted: compacted, forgets: compacted && n&8 > 0}
}

const secret = "hunter2-"

func (v variant) env(stream string) world.Env {
	e := world.Env{"EXCLUDE": "hidden"}
	if v.masked {
		e["MASK"] = "secret:sha256"
	}
	if v.filtered {
		e["FILTER"] = "NOT hidden AND secret LIKE '" + secret + "%'"
	}
	if v.compacted && stream == together {
		// The other streams on the topic have other keys.
		e["KAFKA_TOMBSTONES"] = "on"
	}
	return e
}

// forgetsAfter is the time for which a topic that forgets keeps tombstones, at least.
const forgetsAfter = 6 * time.Second

// compact has the broker compact the topic of together as often as it can.
func (s *scene) compact(t testing.TB, b *world.Bus) {
	t.Helper()
	retention := "600000"
	if s.variant.forgets {
		retention = strconv.FormatInt(forgetsAfter.Milliseconds(), 10)
	}
	configs := make(map[string]*string)
	for name, value := range map[string]string{
		"cleanup.policy": "compact", "segment.ms": "4000", "delete.retention.ms": retention, "min.cleanable.dirty.ratio": "0.01",
	} {
		configs[name] = &value
	}
	b.Kafka.ConfigureTopic(t, s.shared, configs)
}

// isCompacted fails the test unless tombstones were received, and messages were compacted away.
func (s *scene) isCompacted() {
	s.T.Helper()
	for name, o := range s.topics {
		if name != s.shared {
			continue
		}
		received, left := o.tape.Count(), len(s.Bus.ReadAll(s.T, name))
		s.T.Logf("%d tombstones; of %d messages %d are left", s.nulls, received, left)
		if s.nulls == 0 || left >= received {
			s.T.Error("the test shows too little")
		}
	}
}

// searched looks for masked values in all that the program has written: messages, log and
// checkpoint. It returns how many bytes that were.
func (s *scene) searched() (n int) {
	s.T.Helper()
	look := func(where string, text []byte) {
		n += len(text)
		if at := bytes.Index(text, []byte(secret)); at >= 0 {
			s.rows().Add("a masked value", "%s: %.80q", where, text[max(0, at-20):])
		}
	}
	for name, o := range s.topics {
		for _, m := range o.tape.All() {
			look("a message of "+name, m.Value)
			for header, value := range m.Headers {
				look("the header "+header, []byte(value))
			}
		}
	}
	look("the log", []byte(s.Daemon.Log.String()))
	for _, folder := range append([]string{s.Daemon.Checkpoint()}, s.copies...) {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			look(strings.TrimPrefix(path, folder), text)
			if os.IsNotExist(err) {
				// The program runs.
				return nil
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			s.T.Errorf("search %s: %v", folder, err)
		}
	}
	return n
}

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
			s.Env["BRIDGE_SINK_URL"] = name + "://" + proxy.Addr()
			s.stallsTheSecondTable(proxy)
		})
	}
}

func (s *scene) stallsTheSecondTable(proxy *testenv.Proxy) {
	s.T.Helper()
	s.start()
	world.AwaitReady(s.T, s.Daemon)
	of := s.streams[apart]
	goes := func(table int) {
		s.T.Helper()
		must.OK(s.T, of.writers.HopTo(s.T.Context(), of.tables[table]))
	}
	published := func(what string) {
		s.T.Helper()
		now := s.tableFold(of)
		world.Eventually(s.T, time.Minute, what+" is published", func() bool {
			s.receive()
			return of.judge.Difference(now) == ""
		})
	}
	goes(0)
	published("the first")

	// A request to Kafka begins with its size and its kind, which is 0 for Produce.
	topic := []byte(of.tables[1])
	proxy.Block(func(data []byte) bool {
		if s.Bus.Kafka != nil {
			return len(data) > 8 && data[4] == 0 && data[5] == 0 && bytes.Contains(data, topic)
		}
		return bytes.Contains(data, append([]byte("HPUB "), topic...))
	})
	goes(1)
	world.Eventually(s.T, time.Minute, "the publish of the second table is held", func() bool { return proxy.Blocked() > 0 })
	proxy.Pass()
	goes(2)
	s.kill()
	s.start()
	published("the third")

	held, before := proxy.Open(), s.Bus.Count(s.T, of.tables[1])
	proxy.Release()
	if s.Bus.Kafka != nil {
		world.Eventually(s.T, time.Minute, "the late message is stored", func() bool { return s.Bus.Count(s.T, of.tables[1]) > before })
	} else {
		world.Eventually(s.T, time.Minute, "the connection that was held ends", func() bool { return proxy.Open() < held })
	}
	s.kill()
	s.start()
	must.OK(s.T, s.rest(true))
}
