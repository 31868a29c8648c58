package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

// usualPartitions is how many a topic has, but where it is compared with one of a single one.
const usualPartitions = 8

// kafkaBus counts and reads with franz-go, which the program does not use.
type kafkaBus struct {
	server *testenv.KafkaServer
	client *kgo.Client
	once   bool
	// partitions of every topic.
	partitions int32
}

func openKafka(t *testing.T) bus {
	t.Helper()
	return kafkaOn(t, testenv.Kafka(t))
}

func kafkaOn(t *testing.T, server *testenv.KafkaServer) bus {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kafkaBus{server: server, client: client, partitions: usualPartitions}
}

func (b kafkaBus) name() string    { return "kafka" }
func (b kafkaBus) product() string { return "Apache Kafka" }
func (b kafkaBus) version() string { return b.server.Version }
func (b kafkaBus) servers() string { return strings.Join(b.server.Brokers(), ",") }
func (b kafkaBus) library() string { return "franz-go" }
func (b kafkaBus) ours() string    { return "kafka" }

func (b kafkaBus) exactlyOnce() bus { b.once = true; return b }

func (b kafkaBus) env(target string) env {
	e := env{"BRIDGE_SINK_URL": "kafka://" + b.servers()}
	if b.once {
		e["BRIDGE_DELIVERY"], e["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = report.ExactlyOnce, target
	}
	return e
}

func (b kafkaBus) open(t testing.TB, target string) string {
	b.server.CreateTopic(t, target, b.partitions, nil)
	return target
}

func (b kafkaBus) drop(t testing.TB, target string) { b.server.DeleteTopic(t, target) }

func (b kafkaBus) count(t testing.TB, target string) int64 {
	t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = target
	for p := range b.partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		topic.Partitions = append(topic.Partitions, partition)
	}
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(t.Context(), b.client)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, p := range response.Topics[0].Partitions {
		sum += p.Offset
	}
	return sum
}

// bytes sums the sizes of the partitions, as they are on the broker's disk.
func (b kafkaBus) bytes(t testing.TB, target string) int64 {
	t.Helper()
	request := kmsg.NewPtrDescribeLogDirsRequest()
	topic := kmsg.NewDescribeLogDirsRequestTopic()
	topic.Topic = target
	for p := range b.partitions {
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	var sum int64
	for _, shard := range b.client.RequestSharded(t.Context(), request) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			for _, topic := range dir.Topics {
				for _, p := range topic.Partitions {
					sum += p.Size
				}
			}
		}
	}
	return sum
}

func (b kafkaBus) follow(t testing.TB, target string, each func(arrival)) (stop func()) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...), kgo.ConsumeTopics(target), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Second), soon)
	if err != nil {
		t.Fatal(err)
	}
	return consume(t, client.Close, func(ctx context.Context) error {
		for {
			fetches := client.PollFetches(ctx)
			at := time.Now()
			for _, e := range fetches.Errors() {
				return e.Err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				number := ""
				for _, h := range r.Headers {
					if h.Key == sink.HeaderRowID {
						number = string(h.Value)
					}
				}
				if row := rowOf(number, r.Value); row > 0 {
					each(arrival{row, at, r.Value})
				}
			})
		}
	})
}

// soon has a client ask again soon about a topic that was made a moment ago, in place of seconds
// later.
var soon = kgo.MetadataMinAge(20 * time.Millisecond)

// ring is the number of records in the memory of publishFranz: more than the client holds at a
// time.
const ring = 1 << 16

// publishFranz publishes a spool with franz-go: idempotent, acks=all, without compression as bridge
// by default, its batches as they come.
func publishFranz(j job, begin func()) (count, size int64, err error) {
	messages, err := openSpool(j.Spool)
	if err != nil {
		return 0, 0, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(j.Servers, ",")...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(ring/2), kgo.DefaultProduceTopic(j.Target), soon)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	if err := client.Ping(context.Background()); err != nil {
		return 0, 0, err
	}
	records := make([]kgo.Record, ring)
	for i := range records {
		records[i].Headers = kafkaHeaders()
	}
	failed := make(chan error, 1)
	acked := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	begin()
	for m, ok := messages.next(); ok; m, ok = messages.next() {
		r := &records[count%ring]
		*r = kgo.Record{Key: m.key, Value: m.value, Headers: r.Headers}
		r.Headers[idHeader].Value, r.Headers[rowHeader].Value = m.id, m.row
		client.Produce(context.Background(), r, acked)
		count++
		size += int64(len(m.value))
	}
	err = client.Flush(context.Background())
	select {
	case first := <-failed:
		err = errors.Join(err, first)
	default:
	}
	return count, size, err
}

// The positions of the headers that differ between messages.
var idHeader, rowHeader = headerAt(sink.HeaderID), headerAt(sink.HeaderRowID)

func headerAt(name string) int {
	names, _ := headersOf(usual.message("", time.Now()))
	return slices.Index(names, name)
}

// kafkaHeaders are the headers of all messages of a target in the ring; all but two values stay.
func kafkaHeaders() []kgo.RecordHeader {
	var headers []kgo.RecordHeader
	names, values := headersOf(usual.message("", time.Now()))
	for i, name := range names {
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(values[i])})
	}
	return headers
}

// publishOurKafka publishes a spool with our sink.
func publishOurKafka(j job, begin func()) (count, size int64, err error) {
	s, err := kafka.Open(kafka.Options{Brokers: strings.Split(j.Servers, ",")})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return publishOurs(s, j, begin)
}
