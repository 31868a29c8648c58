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

func TestConformanceInProcess(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return inProcess(t, false) })
}

// TestConformanceOfTransactions leaves out what does not hold of batches that are whole or not
// there: a rejected message leaves nothing of its batch acknowledged, and where a topic was created
// again the outcome is unknown.
func TestConformanceOfTransactions(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return inProcess(t, true) })
}

func inProcess(t *testing.T, transactions bool) sinktest.Fixture {
	t.Helper()
	one, two := newTopic(), newTopic()
	limit := strconv.Itoa(refused)
	if transactions {
		limit = strconv.Itoa(1 << 20)
	}
	make2 := func(c *kfake.Cluster) error {
		if err := c.CreateTopic(one, 4, map[string]string{"max.message.bytes": limit}); err != nil {
			return err
		}
		return c.CreateTopic(two, 1, map[string]string{"max.message.bytes": limit})
	}
	c := fake(t)
	if err := make2(c); err != nil {
		t.Fatal(err)
	}
	// A single record is judged by its size, so nothing is compressed.
	opts := kafka.Options{Brokers: c.ListenAddrs(), Compression: kafka.None}
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
		Sink: s, Destinations: []string{one, two}, MaxBytes: refused,
		Features: sinktest.Features{Keys: true, Headers: true, Reads: true, Rejects: !transactions, Stalls: true, Wipes: !transactions},
		Cut:      func(testing.TB) { kafka.Cut(s) },
		Read: func(t testing.TB, topic string) []sinktest.Record {
			if transactions {
				if errors.Is(s.Ready(deadline(t)), sink.ErrClosed) {
					// It has left a transaction open, which its successor ends.
					mustFence(t, open())
				}
				return suiteRecords(committed(t, topic, c.ListenAddrs()))
			}
			return suiteRecords(consume(t, topic, kgo.SeedBrokers(c.ListenAddrs()...)))
		},
		Stall: func(testing.TB) func() { return stall(c) },
		Wipe: func(t testing.TB) {
			for _, topic := range []string{one, two} {
				if err := c.DeleteTopic(topic); err != nil {
					t.Fatal(err)
				}
			}
			if err := make2(c); err != nil {
				t.Fatal(err)
			}
		},
	}
	if transactions {
		f.Wipe, f.MaxBytes = nil, 0
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

// TestConformanceReal also pauses and restarts its broker, as the test beside the suite does.
func TestConformanceReal(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{})
	t.Run("a broker that stands still refuses late copies", func(t *testing.T) { standsStill(t, k) })
	limit := strconv.Itoa(refused)
	configs := map[string]*string{"max.message.bytes": &limit}
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		one, two := newTopic(), newTopic()
		k.CreateTopic(t, one, 4, configs)
		k.CreateTopic(t, two, 1, configs)
		s := open(t, kafka.Options{Brokers: k.Brokers(), Compression: kafka.None})
		return sinktest.Fixture{
			Sink: s, Destinations: []string{one, two}, MaxBytes: refused,
			Features: sinktest.Features{
				Keys: true, Headers: true, Reads: true, Durable: true, Rejects: true, Stalls: true, Wipes: true,
			},
			Cut: func(testing.TB) { kafka.Cut(s) },
			Read: func(t testing.TB, topic string) []sinktest.Record {
				return suiteRecords(consume(t, topic, kgo.SeedBrokers(k.Brokers()...)))
			},
			Restart: k.Restart,
			Stall: func(testing.TB) func() {
				k.Pause()
				return k.Resume
			},
			Wipe: func(t testing.TB) {
				for topic, partitions := range map[string]int32{one: 4, two: 1} {
					k.DeleteTopic(t, topic)
					k.CreateTopic(t, topic, partitions, configs)
				}
			},
		}
	})
}
