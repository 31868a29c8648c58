package jetstream_test

import (
	"fmt"
	"sync"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/sink/jetstream"
	"bridge/tests/testenv"
)

// BenchmarkDelivery publishes to a real server and to three replicas, from one table and from
// eight, in batches of one row and of 2,000, at least once and exactly once.
func BenchmarkDelivery(b *testing.B) {
	servers := map[int]*testenv.NATSServer{1: testenv.NATS(b), 3: testenv.OwnNATSCluster(b)[0]}
	for _, replicas := range []int{1, 3} {
		for _, mode := range []string{"at-least-once", "exactly-once"} {
			for _, tables := range []int{1, 8} {
				for _, rows := range []int{1, 2000} {
					b.Run(fmt.Sprintf("replicas=%d/%s/tables=%d/rows=%d", replicas, mode, tables, rows), func(b *testing.B) {
						_, options := claimed(b, servers[replicas], natsjs.StreamConfig{Replicas: replicas})
						if mode == "at-least-once" {
							options.Claim = ""
						}
						deliveries(b, open(b, options), options.Stream+".a", tables, rows)
					})
				}
			}
		}
	}
}

func deliveries(b *testing.B, s *jetstream.Sink, subject string, tables, rows int) {
	mustFence(b, s)
	mustPublish(b, s, messages(subject, "warm", 10, 10))
	for n := 0; b.Loop(); n++ {
		var publishing sync.WaitGroup
		for table := range tables {
			publishing.Go(func() { mustPublish(b, s, messages(subject, fmt.Sprintf("%d-%d", table, n), rows, 50)) })
		}
		publishing.Wait()
	}
	b.ReportMetric(float64(tables*rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
