package kafka_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"bridge/client/clienttest"
	"bridge/client/kafka"
	"bridge/sink"
	sinkkafka "bridge/sink/kafka"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var topics atomic.Int64

func newTopic() string { return fmt.Sprint("client-", topics.Add(1)) }

func publisher(t testing.TB, brokers []string) sink.Sink {
	s, err := sinkkafka.Open(sinkkafka.Options{Brokers: brokers, Logger: slog.New(slog.DiscardHandler)})
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

func TestInProcess(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		topic := newTopic()
		create := func() {
			if err := c.CreateTopic(topic, 3, nil); err != nil {
				t.Fatal(err)
			}
		}
		create()
		return clienttest.Fixture{
			Bus: bus(t, c.ListenAddrs()), Sink: publisher(t, c.ListenAddrs()), Destination: topic, Shares: true,
			Remake: func(t testing.TB) sink.Sink {
				if err := c.DeleteTopic(topic); err != nil {
					t.Fatal(err)
				}
				create()
				return publisher(t, c.ListenAddrs())
			},
		}
	})
}

func TestOnARealBroker(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.StartKafka(t, testenv.KafkaOptions{})
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		topic := newTopic()
		server.CreateTopic(t, topic, 3, nil)
		return clienttest.Fixture{
			Bus: bus(t, server.Brokers()), Sink: publisher(t, server.Brokers()), Destination: topic, Shares: true,
			Restart: func(t testing.TB) { server.Restart(t) },
			Remake: func(t testing.TB) sink.Sink {
				server.DeleteTopic(t, topic)
				server.CreateTopic(t, topic, 3, nil)
				return publisher(t, server.Brokers())
			},
		}
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
