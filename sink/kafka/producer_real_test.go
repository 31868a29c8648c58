package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/sink"
	"bridge/sink/kafka"
	"bridge/tests/testenv"
)

// TestARealBrokerDropsWhatSharesAProducerID shows why no producer id is kept in a store, of which
// there may be a copy: a batch with the same id, epoch and sequences as another is acknowledged and
// not stored, whatever is in it.
func TestARealBrokerDropsWhatSharesAProducerID(t *testing.T) {
	k := testenv.Kafka(t)
	const topic = "shared-id"
	k.CreateTopic(t, topic, 1, nil)
	one, other := open(t, kafka.Options{Brokers: k.Brokers()}), open(t, kafka.Options{Brokers: k.Brokers()})
	first, second := series(topic, "one", 0, 10, 4), series(topic, "other", 0, 10, 4)
	publish(t, one, first)
	kafka.ShareProducer(other, one)
	tps, err := other.TPs(deadline(t), []string{topic})
	if err != nil {
		t.Fatal(err)
	}
	out := publish(t, other, second)
	for i, at := range out.At {
		if at != (sink.At{Offset: uint64(i), Known: true}) || at.Offset >= tps[0].End {
			t.Errorf("message %d is acknowledged at %+v, want the offset of the first batch's, below the end %d", i, at, tps[0].End)
		}
	}
	records := consume(t, topic, kgo.SeedBrokers(k.Brokers()...))
	if len(records) != len(first) || id(records[0]) != first[0].ID {
		t.Errorf("%d records, the first is %s: want the first batch alone", len(records), id(records[0]))
	}
}
