package kafka_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/bridge/client/kafka"
	"example.org/bridge/sink"
	sinkkafka "example.org/bridge/sink/kafka"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var topics atomic.Int64

func newTopic() string { return fmt.Sprint("client-", topics.Add(1)) }

func publisher(t testing.TB, brokers []string) sink.Sink {
	s, err := sinkkafka.Open(sinkkafka.Options{Connection: sinkkafka.Connection{Brokers: brokers}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func bus(t testing.TB, brokers []string) *kafka.Bus {
	b, err := kafka.New(kafka.Options{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fixture is a topic of three partitions.
func fixture(t *testing.T, brokers []string, create, remove func(t testing.TB, topic string)) clienttest.Fixture {
	topic := newTopic()
	create(t, topic)
	return clienttest.Fixture{
		Bus: bus(t, brokers), Sink: publisher(t, brokers), Destination: topic, Shares: true,
		Remake: func(t testing.TB) sink.Sink {
			remove(t, topic)
			create(t, topic)
			return publisher(t, brokers)
		},
	}
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	create := func(t testing.TB, topic string) {
		if err := c.CreateTopic(topic, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t testing.TB, topic string) {
		if err := c.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
	}
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture { return fixture(t, c.ListenAddrs(), create, remove) })
}

func TestOnARealBroker(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.StartKafka(t, testenv.KafkaOptions{})
	create := func(t testing.TB, topic string) { server.CreateTopic(t, topic, 3, nil) }
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		f := fixture(t, server.Brokers(), create, server.DeleteTopic)
		f.Restart = server.Restart
		return f
	})
}

func TestOptionsNeedBrokers(t *testing.T) {
	if _, err := kafka.New(kafka.Options{}); err == nil || !strings.Contains(err.Error(), "Brokers") {
		t.Errorf("New returns %v", err)
	}
}

// BenchmarkTable needs a real broker: see docs/performance.md.
func BenchmarkTable(b *testing.B) {
	server := testenv.Kafka(b)
	topic := newTopic()
	server.CreateTopic(b, topic, 8, nil)
	clienttest.Bench(b, clienttest.Fixture{Bus: bus(b, server.Brokers()), Sink: publisher(b, server.Brokers()), Destination: topic})
}

// BenchmarkEvents needs a real broker, and counts the joining of the group: see
// docs/performance.md.
func BenchmarkEvents(b *testing.B) {
	server := testenv.Kafka(b)
	topic := newTopic()
	server.CreateTopic(b, topic, 8, nil)
	clienttest.BenchEvents(b, clienttest.Fixture{Bus: bus(b, server.Brokers()), Sink: publisher(b, server.Brokers()), Destination: topic})
}
