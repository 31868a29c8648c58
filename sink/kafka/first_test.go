package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
)

// TestEachPartitionHasAFirstMessage: a member of a group that has one partition reads there
// what the messages of a batch have in common, and no message of it says it twice.
func TestEachPartitionHasAFirstMessage(t *testing.T) {
	const partitions = 4
	c := fake(t, kfake.SeedTopics(partitions, "t"))
	s := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	batch := series("t", "key", 0, 200, 50)
	for i := range batch {
		batch[i].Value, batch[i].Schema, batch[i].Version, batch[i].Server, batch[i].State.Index = []byte("{}"), "0123456789ab", "1.0.0", "0 db/shop", uint32(i)
	}
	if out, err := s.Publish(t.Context(), batch); err != nil || !out.AllAcked() {
		t.Fatalf("%d acknowledged: %v", out.Acked(), err)
	}
	met := make(map[int32]int)
	for _, r := range consume(t, "t", kgo.SeedBrokers(c.ListenAddrs()...)) {
		for _, h := range r.Headers {
			if h.Key != sink.HeaderSchema && h.Key != sink.HeaderServer && h.Key != sink.HeaderVersion {
				continue
			}
			if met[r.Partition]++; r.Offset != 0 {
				t.Errorf("offset %d of partition %d has the header %s", r.Offset, r.Partition, h.Key)
			}
		}
	}
	for p := range int32(partitions) {
		if met[p] != 3 {
			t.Errorf("the first message of partition %d has %d of 3 headers", p, met[p])
		}
	}
}
