package kafka_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"
)

// refused is what the topics of the suite take at most.
const refused = 64 << 10

func suiteRecords(records []*kgo.Record) []sinktest.Record {
	out := make([]sinktest.Record, len(records))
	for i, r := range records {
		out[i] = sinktest.Record{ID: id(r), Key: r.Key, Value: r.Value, Headers: make(map[string]string)}
		for _, h := range r.Headers {
			out[i].Headers[h.Key] = string(h.Value)
		}
	}
	return out
}

var topics atomic.Uint64

// newTopic returns a name that no test uses yet.
func newTopic() string { return "topic-" + strconv.FormatUint(topics.Add(1), 10) }

// cluster is where the suites run.
type cluster struct {
	brokers []string
	create  func(t testing.TB, topic string, partitions int32, configs map[string]*string)
	remove  func(t testing.TB, topic string)
	stall   func() (resume func())
}

func fakeCluster(t testing.TB) cluster {
	c := fake(t)
	return cluster{
		brokers: c.ListenAddrs(),
		create: func(t testing.TB, topic string, partitions int32, configs map[string]*string) {
			plain := make(map[string]string)
			for name, value := range configs {
				plain[name] = *value
			}
			if err := c.CreateTopic(topic, partitions, plain); err != nil {
				t.Fatal(err)
			}
		},
		remove: func(t testing.TB, topic string) {
			if err := c.DeleteTopic(topic); err != nil {
				t.Fatal(err)
			}
		},
		stall: func() func() { return stall(c) },
	}
}

func realCluster(k *testenv.KafkaServer) cluster {
	return cluster{brokers: k.Brokers(), create: k.CreateTopic, remove: k.DeleteTopic, stall: func() func() {
		k.Pause()
		return k.Resume
	}}
}

func TestConformanceInProcess(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, fakeCluster(t), false) })
}

// TestConformanceOfTransactions leaves out what does not hold of batches that are whole or not
// there: a rejected message leaves nothing of its batch acknowledged, and where a topic was created
// again the outcome is unknown.
func TestConformanceOfTransactions(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, fakeCluster(t), true) })
}

func TestConformanceReal(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{})
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		f := fixture(t, realCluster(k), false)
		f.Restart = k.Restart
		return f
	})
}

func fixture(t *testing.T, c cluster, transactions bool) sinktest.Fixture {
	t.Helper()
	one, two := newTopic(), newTopic()
	limit := strconv.Itoa(refused)
	if transactions {
		limit = strconv.Itoa(1 << 20)
	}
	create := func(t testing.TB) {
		for topic, partitions := range map[string]int32{one: 4, two: 1} {
			c.create(t, topic, partitions, map[string]*string{"max.message.bytes": &limit})
		}
	}
	create(t)
	// A single record is judged by its size, so nothing is compressed.
	opts := kafka.Options{Brokers: c.brokers, Compression: kafka.None}
	if transactions {
		opts.TransactionalID = "suite"
	}
	open := func() *kafka.Sink {
		s := open(t, opts)
		if transactions {
			// kfake keeps the time limit of the first one, by which processes know each other.
			kafka.SetTransactionTimeout(s, 60_000)
		}
		return s
	}
	s := open()
	f := sinktest.Fixture{
		Sink: s, Destinations: []string{one, two}, Features: sinktest.Features{Keys: true, Headers: true, Reads: true},
		Cut: func(testing.TB) { kafka.Cut(s) },
		Read: func(t testing.TB, topic string) []sinktest.Record {
			if transactions {
				if errors.Is(s.Ready(deadline(t)), sink.ErrClosed) {
					// It has left a transaction open, which its successor ends.
					mustFence(t, open())
				}
				return suiteRecords(committed(t, topic, c.brokers))
			}
			return suiteRecords(consume(t, topic, c.brokers))
		},
		Stall: func(testing.TB) func() { return c.stall() },
	}
	if !transactions {
		f.MaxBytes = refused
		f.Wipe = func(t testing.TB) {
			c.remove(t, one)
			c.remove(t, two)
			create(t)
		}
	}
	return f
}

// stall keeps produce requests waiting until resume is called; then they are served, late as they
// are.
func stall(c *kfake.Cluster) (resume func()) {
	gate := make(chan struct{})
	var open atomic.Bool
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !open.Load() {
			c.SleepControl(func() { <-gate })
		}
		return nil, nil, false
	})
	return func() {
		if !open.Swap(true) {
			close(gate)
		}
	}
}
