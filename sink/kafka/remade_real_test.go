package kafka_test

import (
	"errors"
	"testing"

	"bridge/internal/testenv"
	"bridge/sink"
	"bridge/sink/kafka"
)

// TestARealTopicThatWasRecreatedAndGrew: a broker tells the ids of its topics as kafka-topics.sh
// shows them.
func TestARealTopicThatWasRecreatedAndGrew(t *testing.T) {
	k := testenv.Kafka(t)
	const name = "recreated"
	k.CreateTopic(t, name, 1, nil)
	offset := publish(t, open(t, kafka.Options{Brokers: k.Brokers()}), series(name, "before", 0, 10, 4)).Offsets[0]
	if len(offset.Incarnation) != 22 || offset.Last != 9 || offset.ID == "" {
		t.Fatalf("offset %+v", offset)
	}
	verify := func(m sink.Offset) error {
		return open(t, kafka.Options{Brokers: k.Brokers()}).Verify(deadline(t), []sink.Offset{m})
	}
	if err := verify(offset); err != nil {
		t.Fatalf("Verify of the topic as it is: %v", err)
	}
	k.DeleteTopic(t, name)
	k.CreateTopic(t, name, 1, nil)
	publish(t, open(t, kafka.Options{Brokers: k.Brokers()}), series(name, "other", 0, 30, 4))
	for how, m := range map[string]sink.Offset{
		"by the topic's id": {TP: offset.TP, Incarnation: offset.Incarnation, Last: offset.Last},
		"by the record":     {TP: offset.TP, Last: offset.Last, ID: offset.ID},
	} {
		if err := verify(m); !errors.Is(err, sink.ErrBehind) {
			t.Errorf("%s: Verify returns %v, want ErrBehind", how, err)
		}
	}
}
