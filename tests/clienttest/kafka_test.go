package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client"
	"example.org/bridge/client/kafka"
	"example.org/bridge/sink"
	sinkkafka "example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

var topics atomic.Int64

func newTopic() string { return fmt.Sprint("client-", topics.Add(1)) }

func kafkaSink(t testing.TB, brokers []string) sink.Sink {
	s := must.Get(sinkkafka.Open(sinkkafka.Options{Connection: sinkkafka.Connection{Brokers: brokers}, Logger: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func kafkaBus(t testing.TB, brokers []string) *kafka.Bus {
	return must.Get(kafka.New(kafka.Options{Brokers: brokers}))(t)
}

func onTopic(t *testing.T, brokers []string, create, remove func(t testing.TB, topic string)) clienttest.Fixture {
	topic := newTopic()
	create(t, topic)
	return clienttest.Fixture{
		Bus: kafkaBus(t, brokers), Sink: kafkaSink(t, brokers), Destination: topic, Shares: true,
		Remake: func(t testing.TB) sink.Sink {
			remove(t, topic)
			create(t, topic)
			return kafkaSink(t, brokers)
		},
	}
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(c.Close)
	create := func(t testing.TB, topic string) {
		must.OK(t, c.CreateTopic(topic, 3, nil))
	}
	remove := func(t testing.TB, topic string) {
		must.OK(t, c.DeleteTopic(topic))
	}
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture { return onTopic(t, c.ListenAddrs(), create, remove) })
}

func TestOnARealBroker(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.StartKafka(t, testenv.KafkaOptions{})
	create := func(t testing.TB, topic string) { server.CreateTopic(t, topic, 3, nil) }
	clienttest.Run(t, func(t *testing.T) clienttest.Fixture {
		f := onTopic(t, server.Brokers(), create, server.DeleteTopic)
		f.Restart = server.Restart
		return f
	})
}

// TestTopicsThatAreMissing has events of the others handed over, and theirs once they are there.
func TestTopicsThatAreMissing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "there")))(t)
	t.Cleanup(c.Close)
	var joins atomic.Int64
	c.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		joins.Add(1)
		return nil, nil, false
	})
	// At first the topics cannot be looked for.
	var shared atomic.Bool
	c.ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		shared.Store(true)
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if library := r.GetVersion() < 10; library || shared.Load() {
			return nil, nil, false
		}
		return nil, errors.New("not now"), true
	})
	handled := make(chan string, 100)
	events, _ := clienttest.Handle(t, kafkaBus(t, c.ListenAddrs()), "g", options("there", "late"), func(_ context.Context, e client.Event) error {
		handled <- e.ID
		return nil
	})
	write := func(topic string) {
		t.Helper()
		w := clienttest.NewWriter(t, kafkaSink(t, c.ListenAddrs()), topic, 1)
		w.Write(20, 20)
		for range w.IDs {
			select {
			case <-handled:
			case <-time.After(clienttest.Within):
				t.Fatalf("the events of %s are not handled: %v", topic, events.Err())
			}
		}
	}
	faulty := func(topic string) {
		t.Helper()
		sinktest.Until(t, "Err names the topic "+topic, func() bool {
			err := events.Err()
			return err != nil && strings.Contains(err.Error(), "topic "+topic+" does not exist")
		})
	}
	write("there")
	faulty("late")
	must.OK(t, c.CreateTopic("late", 2, nil))
	write("late")
	must.OK(t, c.DeleteTopic("there"))
	faulty("there")
	write("late")
	// Each change is worth one, or two where it is met half way.
	if n := joins.Load(); n > 8 {
		t.Errorf("it has joined %d times", n)
	}
}

// BenchmarkTable needs real servers: see docs/performance.md.
func BenchmarkTable(b *testing.B) { onBoth(b, clienttest.Bench) }

// BenchmarkEvents needs real servers, and counts the joining of the group on Kafka: see
// docs/performance.md.
func BenchmarkEvents(b *testing.B) { onBoth(b, clienttest.BenchEvents) }

func onBoth(b *testing.B, bench func(*testing.B, clienttest.Fixture)) {
	b.Run("kafka", func(b *testing.B) {
		server, topic := testenv.Kafka(b), newTopic()
		server.CreateTopic(b, topic, 8, nil)
		bench(b, clienttest.Fixture{Bus: kafkaBus(b, server.Brokers()), Sink: kafkaSink(b, server.Brokers()), Destination: topic})
	})
	b.Run("jetstream", func(b *testing.B) { bench(b, onStream(b, testenv.NATS(b))) })
}
