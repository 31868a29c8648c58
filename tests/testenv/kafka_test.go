package testenv_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

func TestKafkaKeepsItsDataAndPortOverAKill(t *testing.T) {
	testall.Long(t)
	s := testenv.StartKafka(t, testenv.KafkaOptions{})
	s.CreateTopic(t, "kept", 2, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers()...), kgo.ConsumeTopics("kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte("before")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.Restart(t)
	t.Logf("killed and started again in %v", time.Since(start).Round(time.Millisecond))
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	for r := range fetches.RecordsAll() {
		if string(r.Value) != "before" {
			t.Errorf("read %q", r.Value)
		}
	}
	s.AddPartitions(t, "kept", 3)
	s.DeleteTopic(t, "kept")
}
