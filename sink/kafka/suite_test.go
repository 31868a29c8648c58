package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// refused is what the topics of the suite take at most.
const refused = 64 << 10

var topics atomic.Uint64

func newTopic() string { return "topic-" + strconv.FormatUint(topics.Add(1), 10) }

// TestConformance has the broker compact at once, for the readers. Exactly once it leaves out what
// does not hold of batches that are whole or not there: a rejected message leaves nothing of its
// batch acknowledged, and the outcome is unknown where the broker or a topic went.
func TestConformance(t *testing.T) {
	t.Parallel()
	compacting := map[string]string{"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "2000000"}
	k := testenv.StartKafka(t, testenv.KafkaOptions{Config: compacting})
	t.Run("at least once", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, k, false) })
	})
	t.Run("exactly once", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return fixture(t, k, true) })
	})
	t.Run("reader", func(t *testing.T) {
		sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture { return readerFixture(t, k) })
	})
}

func fixture(t *testing.T, k *testenv.KafkaServer, exactly bool) sinktest.Fixture {
	t.Helper()
	one, two := newTopic(), newTopic()
	limit := strconv.Itoa(refused)
	if exactly {
		limit = strconv.Itoa(1 << 20)
	}
	create := func(t testing.TB) {
		for topic, partitions := range map[string]int32{one: 4, two: 1} {
			k.CreateTopic(t, topic, partitions, map[string]*string{"max.message.bytes": &limit})
		}
	}
	create(t)
	// A single record is judged by its size, so nothing is compressed.
	opts := kafka.Options{Connection: at(k.Brokers()), Compression: kafka.None}
	if exactly {
		opts.TransactionalID = "suite-" + one
	}
	s := openQuiet(t, opts)
	f := sinktest.Fixture{
		Sink: s, Destinations: []string{one, two}, Features: sinktest.Features{Keys: true, Headers: true, Reads: true},
		Cut: func(testing.TB) { kafka.Cut(s) },
		Stall: func(testing.TB) func() {
			k.Pause()
			return k.Resume
		},
		Read: func(t testing.TB, topic string) []sinktest.Record {
			if exactly && errors.Is(s.Ready(sinktest.Deadline(t)), sink.ErrClosed) {
				// It has left a transaction open, which its successor ends.
				sinktest.MustFence(t, openQuiet(t, opts))
			}
			return recordsOf(committed(t, topic, k.Brokers()))
		},
	}
	if !exactly {
		f.MaxBytes, f.Restart = refused, k.Restart
		f.Wipe = func(t testing.TB) {
			k.DeleteTopic(t, one)
			k.DeleteTopic(t, two)
			create(t)
		}
	}
	return f
}

func transactionalFixture(t *testing.T, k *testenv.KafkaServer, brokers []string) sinktest.TransactionalFixture {
	topic, opts := newTopic(), transactional(t, brokers)
	k.CreateTopic(t, topic, 3, nil)
	return sinktest.TransactionalFixture{
		Open: func(t testing.TB) sink.Transactional { return open(t, opts) }, Destination: topic, Keys: true,
		OnStep: func(s sink.Sink, hook func(string)) { kafka.OnStep(s.(*kafka.Sink), hook) },
		Read:   func(t testing.TB, topic string) []sinktest.Record { return recordsOf(committed(t, topic, k.Brokers())) },
	}
}

func TestAZombieAtEachStep(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	sinktest.Zombies(t, func(t *testing.T) sinktest.TransactionalFixture { return transactionalFixture(t, k, k.Brokers()) })
}

func TestACutAtEachStep(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	cut := func(_ testing.TB, s sink.Sink) { kafka.Cut(s.(*kafka.Sink)) }
	sinktest.HarmAtEachStep(t, transactionalFixture(t, k, k.Brokers()), cut, 1, 500, 10)
}

// TestAnswersThatAreLost has the brokers take what is sent and loses the answers.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, Lasting: true})
	sinktest.HarmAtEachStep(t, transactionalFixture(t, k, k.ProxiedBrokers()), func(_ testing.TB, s sink.Sink) {
		k.Proxy().DropAnswers()
		time.AfterFunc(300*time.Millisecond, func() {
			kafka.Cut(s.(*kafka.Sink))
			k.Proxy().Heal()
		})
	}, 10)
}

func TestABrokerIsKilledInTransactions(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{})
	sinktest.HarmAtEachStep(t, transactionalFixture(t, k, k.Brokers()), func(t testing.TB, _ sink.Sink) { k.Restart(t) }, 10)
}

// TestProcessesThatBeginTogether: so it is where all have drawn the same time limit by chance, too.
func TestProcessesThatBeginTogether(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	for round := range 4 {
		f := transactionalFixture(t, k, k.Brokers())
		var processes []sink.Transactional
		for range 4 {
			s := f.Open(t)
			if round%2 == 1 {
				kafka.SetTransactionTimeout(s.(*kafka.Sink), 60_002)
			}
			processes = append(processes, s)
		}
		sinktest.BeginTogether(t, f, processes...)
	}
}

func newClient(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client := must.Get(kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...))(t)
	t.Cleanup(client.Close)
	return client
}

// readerFixture is a sink with one topic of one partition.
func readerFixture(t *testing.T, k *testenv.KafkaServer) sinktest.ReaderFixture {
	topic, dirty, segment := newTopic(), "0.001", strconv.Itoa(int(time.Hour/time.Millisecond))
	create := func(t testing.TB) {
		k.CreateTopic(t, topic, 1, map[string]*string{"min.cleanable.dirty.ratio": &dirty, "segment.ms": &segment})
	}
	create(t)
	opts := kafka.Options{Connection: at(k.Brokers()), Compression: kafka.LZ4}
	s := openQuiet(t, opts)
	// The reader that is closed does not publish.
	publisher := openQuiet(t, opts)
	client := newClient(t, k.Brokers(), kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(100))
	return sinktest.ReaderFixture{
		Reader: s, Destination: topic, Close: s.Close, Keys: true, MaxBytes: refused / 2, Restart: k.Restart,
		Publish: func(t testing.TB, batch []sink.Message) {
			if out, err := publisher.Publish(t.Context(), batch); err != nil || !out.AllAcked() {
				t.Errorf("published %d of %d: %v", out.Acked(), len(batch), err)
			}
		},
		Foreign: func(t testing.TB, n int) {
			for range n {
				must.OK(t, client.ProduceSync(sinktest.Deadline(t), &kgo.Record{Value: []byte("hello")}).FirstErr())
			}
		},
		Expire: func(t testing.TB, first uint64) {
			request := kmsg.NewPtrDeleteRecordsRequest()
			request.TimeoutMillis = 10000
			partitions := []kmsg.DeleteRecordsRequestTopicPartition{{Offset: int64(first)}}
			request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: partitions}}
			answer, err := request.RequestWith(sinktest.Deadline(t), client)
			if err == nil {
				err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t testing.TB, offsets []uint64) { compact(t, k, client, topic, offsets) },
		Cut:    func(testing.TB) { kafka.Cut(s) },
		Wipe: func(t testing.TB) {
			k.DeleteTopic(t, topic)
			create(t)
			// The former one holds the topic against what it has published.
			publisher = openQuiet(t, opts)
		},
	}
}

// compact has the broker compact away the records at offsets, each of which has a key of its own,
// and waits until it has.
func compact(t testing.TB, k *testenv.KafkaServer, client *kgo.Client, topic string, offsets []uint64) {
	t.Helper()
	ctx := sinktest.Deadline(t)
	put := func(key []byte) {
		must.OK(t, client.ProduceSync(ctx, &kgo.Record{Key: key}).FirstErr())
	}
	gone := func(r *kgo.Record) bool { return slices.Contains(offsets, uint64(r.Offset)) }
	for _, r := range consume(t, topic, k.Brokers()) {
		if gone(r) {
			put(r.Key)
		}
	}
	policy, segment, none := "compact", "100", "0"
	k.ConfigureTopic(t, topic, map[string]*string{"cleanup.policy": &policy, "segment.ms": &segment, "delete.retention.ms": &none})
	n := 0
	sinktest.Until(t, "the records are compacted away", func() bool {
		// A record closes a segment that is old enough: only closed ones are compacted.
		n++
		put(fmt.Append(nil, "tick-", n))
		return !slices.ContainsFunc(consume(t, topic, k.Brokers()), gone)
	})
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
