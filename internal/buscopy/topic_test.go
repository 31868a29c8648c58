package buscopy_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/buscopy/buckettest"
	"example.org/bridge/internal/inspect"
	sinkkafka "example.org/bridge/sink/kafka"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var topics atomic.Int64

func openKafka(t *testing.T, s *testenv.KafkaServer, topic string) *sinkkafka.Sink {
	t.Helper()
	return must.Get(sinkkafka.Open(sinkkafka.Options{Connection: sinkkafka.Connection{Brokers: s.Brokers()}, Topics: []string{topic}, Table: true}))(t)
}

func openTopic(t *testing.T, s *testenv.KafkaServer, topic string) *buscopy.Messages {
	t.Helper()
	return buscopy.NewTopic(openKafka(t, s, topic), topic, sinkkafka.CreateTable(s.Brokers()[0], topic))
}

func newTopic() string { return fmt.Sprint("buscopy-", topics.Add(1)) }

func compacted() map[string]*string {
	policy, segment := "compact", "1048576"
	return map[string]*string{"cleanup.policy": &policy, "segment.bytes": &segment}
}

func TestTopicSuite(t *testing.T) {
	t.Parallel()
	s := testenv.Kafka(t)
	buckettest.Run(t, buckettest.Options{Open: func(t *testing.T) func() buscopy.Bucket {
		topic := newTopic()
		s.CreateTopic(t, topic, 1, compacted())
		return func() buscopy.Bucket { return openTopic(t, s, topic) }
	}})
}

// TestTopics: one that is missing, has several partitions or is not compacted is named, with the
// command that fixes it.
func TestTopics(t *testing.T) {
	t.Parallel()
	s := testenv.Kafka(t)
	find := func(topic string) []inspect.Finding {
		bus := openKafka(t, s, topic)
		defer func() { _ = bus.Close() }()
		return bus.Inspect(t.Context()).Findings
	}
	expect := func(topic string, code inspect.Code, command string) {
		t.Helper()
		found := find(topic)
		if len(found) != 1 || found[0].Code != code || !strings.Contains(fmt.Sprint(found[0]), command) {
			t.Errorf("%s: %+v, want %s with %s", topic, found, code, command)
		}
	}
	topic := newTopic()
	b := openTopic(t, s, topic)
	defer func() { _ = b.Close() }()
	must.Fail(t, must.Err(b.Entries(t.Context(), "")), buscopy.ErrMissing, "cleanup.policy=compact")
	expect(topic, inspect.NoTopic, "--partitions 1 --config cleanup.policy=compact")
	s.CreateTopic(t, topic, 1, nil)
	expect(topic, inspect.TopicUncompacted, "cleanup.policy=compact")
	s.ConfigureTopic(t, topic, compacted())
	if found := find(topic); len(found) > 0 {
		t.Errorf("a topic that is fine: %+v", found)
	}
	s.AddPartitions(t, topic, 2)
	expect(topic, inspect.TopicPartitions, "--partitions 1")
	must.Fail(t, must.Err(b.Entries(t.Context(), "")), "2 partitions")
}
