package kafka_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"
)

// benchTopic fills a topic of a real broker with n messages of 200 bytes and 12 headers.
func benchTopic(b *testing.B, k *testenv.KafkaServer, codec kgo.CompressionCodec, n int) string {
	b.Helper()
	topic := newTopic()
	k.CreateTopic(b, topic, 1, nil)
	client := newClient(b, k.Brokers(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.MaxBufferedRecords(20000))
	value := bytes.Repeat([]byte("0123456789"), 20)
	m := message(topic, "k", 0, 200)
	for i := range n {
		r := &kgo.Record{Key: fmt.Append(nil, "app+", i), Value: value}
		m.ID, m.RowID = fmt.Sprintf("%08d-0000-5000-8000-000000000000", i), uint64(i)
		m.EachHeader(func(name, value string) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		})
		for _, name := range []string{"bridge-state", "traceparent", "tenant"} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte("0123456789abcdef0123456789abcdef")})
		}
		client.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return topic
}

// BenchmarkRead reads a partition of a real broker: BRIDGE_TEST_REAL=1 go test -bench Read.
func BenchmarkRead(b *testing.B) {
	const messages = 500_000
	k := testenv.StartKafka(b, testenv.KafkaOptions{})
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		topic := benchTopic(b, k, codec, messages)
		b.Run(name, func(b *testing.B) {
			s := openQuiet(b, kafka.Options{Brokers: k.Brokers()})
			sinktest.BenchmarkRead(b, s, sink.Span{TP: topic + "/0", To: messages})
		})
	}
}
