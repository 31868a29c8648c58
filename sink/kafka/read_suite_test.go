package kafka_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/sink/sinktest"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// newClient returns an independent client.
func newClient(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// deleteRecords removes what lies below an offset.
func deleteRecords(t testing.TB, client *kgo.Client, topic string, first int64) {
	t.Helper()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = 10000
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: first}}}}
	answer, err := request.RequestWith(deadline(t), client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readerFixture is a sink with one topic of one partition.
func readerFixture(t *testing.T, c cluster, compression kafka.Compression, configs map[string]*string) sinktest.ReaderFixture {
	topic := newTopic()
	c.create(t, topic, 1, configs)
	opts := kafka.Options{Brokers: c.brokers, Compression: compression}
	s := openQuiet(t, opts)
	// The reader that is closed does not publish.
	publisher := openQuiet(t, opts)
	client := newClient(t, c.brokers, kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(100))
	return sinktest.ReaderFixture{
		Reader: s, Destination: topic, Close: s.Close, Keys: true, MaxBytes: refused / 2,
		Publish: func(t testing.TB, batch []sink.Message) {
			if out, err := publisher.Publish(t.Context(), batch); err != nil || !out.AllAcked() {
				t.Errorf("published %d of %d: %v", out.Acked(), len(batch), err)
			}
		},
		Foreign: func(t testing.TB, n int) {
			for range n {
				if err := client.ProduceSync(deadline(t), &kgo.Record{Value: []byte("hello")}).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		},
		Expire: func(t testing.TB, first uint64) { deleteRecords(t, client, topic, int64(first)) },
		Cut:    func(testing.TB) { kafka.Cut(s) },
		Wipe: func(t testing.TB) {
			c.remove(t, topic)
			c.create(t, topic, 1, configs)
			// The former one holds the topic against what it has published.
			publisher = openQuiet(t, opts)
		},
	}
}

func TestReaderInProcess(t *testing.T) {
	t.Parallel()
	// The other codecs differ in what decodes a batch, and nowhere else.
	for _, codec := range testall.Pick([]kafka.Compression{kafka.LZ4}, kafka.Compressions) {
		t.Run(string(codec), func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t)
			sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture { return readerFixture(t, c, codec, nil) })
		})
	}
}

func TestReaderReal(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{Config: map[string]string{"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "2000000"}})
	t.Run("transactions", func(t *testing.T) { realTransactions(t, k) })
	dirty, segment := "0.001", strconv.Itoa(int(time.Hour/time.Millisecond))
	sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture {
		f := readerFixture(t, realCluster(k), kafka.LZ4, map[string]*string{"min.cleanable.dirty.ratio": &dirty, "segment.ms": &segment})
		f.Restart = k.Restart
		f.Delete = func(t testing.TB, offsets []uint64) { compact(t, k, f.Destination, offsets) }
		return f
	})
}

// compact has the broker compact away the records at offsets, each of which has a key of its own,
// and waits until it has.
func compact(t testing.TB, k *testenv.KafkaServer, topic string, offsets []uint64) {
	t.Helper()
	client := newClient(t, k.Brokers(), kgo.DefaultProduceTopic(topic))
	seen := consume(t, topic, k.Brokers())
	for _, r := range seen {
		if slices.Contains(offsets, uint64(r.Offset)) {
			if err := client.ProduceSync(deadline(t), &kgo.Record{Key: r.Key}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	policy, segment, none := "compact", "100", "0"
	k.ConfigureTopic(t, topic, map[string]*string{"cleanup.policy": &policy, "segment.ms": &segment, "delete.retention.ms": &none})
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	ctx := deadline(t)
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the records are not compacted away")
		}
		// A record closes a segment that is old enough: only closed ones are compacted.
		if err := client.ProduceSync(ctx, &kgo.Record{Key: fmt.Append(nil, "tick-", n)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(consume(t, topic, k.Brokers()), func(r *kgo.Record) bool { return slices.Contains(offsets, uint64(r.Offset)) }) {
			return
		}
	}
}
