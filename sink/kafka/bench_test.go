package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

func BenchmarkPublish(b *testing.B) {
	for _, compression := range kafka.Compressions {
		b.Run(string(compression), func(b *testing.B) {
			c := fake(b, kfake.BlackholeProduce(), kfake.SeedTopics(8, "t"))
			s := openQuiet(b, kafka.Options{Brokers: c.ListenAddrs(), Compression: compression})
			batch := series("t", "key", 0, 2000, 500)
			ctx := b.Context()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if out, err := s.Publish(ctx, batch); err != nil || !out.AllAcked() {
					b.Fatalf("%d acknowledged: %v", out.Acked(), err)
				}
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func BenchmarkPublishReal(b *testing.B) {
	k := testenv.Kafka(b)
	for _, compression := range kafka.Compressions {
		b.Run(string(compression), func(b *testing.B) {
			topic := newTopic() + "-bench"
			k.CreateTopic(b, topic, 8, nil)
			s := openQuiet(b, kafka.Options{Brokers: k.Brokers(), Compression: compression})
			batch := series(topic, "key", 0, 2000, 500)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if out, err := s.Publish(b.Context(), batch); err != nil || !out.AllAcked() {
					b.Fatalf("%d acknowledged: %v", out.Acked(), err)
				}
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
