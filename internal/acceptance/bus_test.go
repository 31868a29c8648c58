package acceptance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/internal/testenv"
)

// bus is one of the two real buses as the tests see it.
type bus interface {
	// env returns the variables that point the program to the bus.
	env() env
	// open makes the place for a destination called name and returns what to set as DESTINATION.
	open(t testing.TB, name string) (destination string)
	// read returns all messages of the destination, each place in its order.
	read(t testing.TB, name string) []received
	// count returns how many messages the destination holds, without reading them.
	count(t testing.TB, name string) int64
	// follow receives the messages of the destination from its beginning as they come, until the test ends.
	follow(t testing.TB, name string) *tape
	// publisher makes a place and returns what publishes one message there and waits for the acknowledgement.
	publisher(t testing.TB, name string) func(context.Context) error
	kill()
	start(t testing.TB)
}

// kafkaBus reads with franz-go, which the program does not use.
type kafkaBus struct{ server *testenv.KafkaServer }

func (b kafkaBus) env() env {
	return env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(b.server.Brokers(), ",")}
}

func (b kafkaBus) open(t testing.TB, name string) string {
	b.server.CreateTopic(t, name, 8, nil)
	return name
}

func (b kafkaBus) kill()              { b.server.Kill() }
func (b kafkaBus) start(t testing.TB) { b.server.Start(t) }

func (b kafkaBus) read(t testing.TB, name string) []received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...), kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var out []received
	// What was acknowledged before is visible at once: a topic that yields nothing more for 3 s is at its end.
	for {
		wait, cancel := context.WithTimeout(ctx, 3*time.Second)
		fetches := client.PollFetches(wait)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				t.Fatal(e.Err)
			}
		}
		if fetches.NumRecords() == 0 {
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
			return out
		}
		fetches.EachRecord(func(r *kgo.Record) {
			m := received{place: fmt.Sprint(r.Partition), key: string(r.Key), value: r.Value, headers: make(map[string]string)}
			for _, h := range r.Headers {
				m.headers[h.Key] = string(h.Value)
			}
			out = append(out, m)
		})
	}
}

func (b kafkaBus) count(t testing.TB, name string) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = name
	for p := range int32(8) {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		topic.Partitions = append(topic.Partitions, partition)
	}
	request.Topics = append(request.Topics, topic)
	var sum int64
	eventually(t, 30*time.Second, "Kafka says how much "+name+" holds", func() bool {
		// While a leader is sought there is no answer.
		response, err := request.RequestWith(t.Context(), client)
		if err != nil || len(response.Topics) == 0 {
			return false
		}
		sum = 0
		for _, p := range response.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return false
			}
			sum += p.Offset
		}
		return true
	})
	return sum
}

// natsBus reads with nats.go's ordered consumer.
type natsBus struct{ server *testenv.NATSServer }

func (b natsBus) env() env { return env{"BRIDGE_SINK_URL": b.server.URL()} }

func (b natsBus) open(t testing.TB, name string) string {
	b.server.CreateStream(t, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute,
	})
	return name + ".{type}"
}

func (b natsBus) kill()              { b.server.Kill() }
func (b natsBus) start(t testing.TB) { b.server.Start(t) }

func (b natsBus) read(t testing.TB, name string) []received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := b.server.JetStream(t).Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	var out []received
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		r := received{place: name, value: m.Data(), headers: make(map[string]string)}
		for k, v := range m.Headers() {
			r.headers[k] = v[0]
		}
		out = append(out, r)
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if meta.Sequence.Stream >= info.State.LastSeq {
			return out
		}
	}
}

func (b natsBus) count(t testing.TB, name string) int64 {
	t.Helper()
	stream, err := b.server.JetStream(t).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return int64(stream.CachedInfo().State.Msgs)
}
