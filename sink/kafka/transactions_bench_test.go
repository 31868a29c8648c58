package kafka_test

import (
	"fmt"
	"sync"
	"testing"

	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

// BenchmarkDelivery publishes to a real broker from one table and from eight, in batches of one row
// and of 2,000, with and without transactions.
func BenchmarkDelivery(b *testing.B) {
	k := testenv.Kafka(b)
	for _, mode := range []string{"at-least-once", "exactly-once"} {
		for _, tables := range []int{1, 8} {
			for _, rows := range []int{1, 2000} {
				b.Run(fmt.Sprintf("%s/tables=%d/rows=%d", mode, tables, rows), func(b *testing.B) {
					topic := newTopic()
					k.CreateTopic(b, topic, 3, nil)
					opts := kafka.Options{Brokers: k.Brokers()}
					if mode == "exactly-once" {
						opts.TransactionalID = "bench"
					}
					s := openQuiet(b, opts)
					mustFence(b, s)
					publish(b, s, series(topic, "warm", 0, 10, 10))
					for b.Loop() {
						var publishing sync.WaitGroup
						for table := range tables {
							publishing.Go(func() { publish(b, s, series(topic, fmt.Sprint(table), 0, rows, 50)) })
						}
						publishing.Wait()
					}
					b.ReportMetric(float64(tables*rows*b.N)/b.Elapsed().Seconds(), "rows/s")
				})
			}
		}
	}
}
