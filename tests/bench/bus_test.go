package bench

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// bus is a real bus as the benchmark sees it: a Kafka, which it asks by franz-go, that the program
// does not use, or a NATS JetStream. A target is a topic or a stream.
type bus struct {
	name, version string
	// servers are the addresses.
	servers string
	kafka   *testenv.KafkaServer
	// partitions of every topic.
	partitions int32
	js         jetstream.JetStream
	// once is for programs that publish each event once.
	once bool
}

func kafkaOn(server *testenv.KafkaServer, partitions int32) *bus {
	return &bus{name: "kafka", version: server.Version, servers: strings.Join(server.Brokers(), ","), kafka: server, partitions: partitions}
}

func natsOn(t testing.TB, server *testenv.NATSServer) *bus {
	t.Helper()
	return &bus{name: "jetstream", version: server.Version, servers: server.URL(), js: server.JetStream(t)}
}

// env returns the variables that point the program to a target.
func (b *bus) env(target string) world.Env {
	e := world.Env{"BRIDGE_SINK_URL": "kafka://" + b.servers}
	if b.kafka == nil {
		e = world.Env{"BRIDGE_SINK_URL": b.servers, "BRIDGE_NATS_STREAM": target}
	}
	switch {
	case b.once && b.kafka != nil:
		e["BRIDGE_DELIVERY"], e["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = "exactly-once", target
	case b.once:
		e["BRIDGE_DELIVERY"], e["BRIDGE_NATS_CLAIM_SUBJECT"] = "exactly-once", target+".claim"
	}
	return e
}

// open makes a target, which is removed when the test ends, and returns what to set as DESTINATION.
func (b *bus) open(t testing.TB, target string) (destination string) {
	t.Helper()
	if b.kafka != nil {
		b.kafka.CreateTopic(t, target, b.partitions, nil)
		t.Cleanup(func() { b.kafka.DeleteTopic(t, target) })
		return target
	}
	_, err := testenv.CreateStream(t.Context(), b.js, jetstream.StreamConfig{
		Name: target, Subjects: []string{target + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute, AllowAtomicPublish: b.once,
	})
	check(t, err)
	t.Cleanup(func() {
		if err := b.js.DeleteStream(context.Background(), target); err != nil {
			t.Error(err)
		}
	})
	return target + ".{type}"
}

// count returns how many messages the target holds, by its offsets or state.
func (b *bus) count(t testing.TB, target string) (sum int64) {
	t.Helper()
	if b.kafka == nil {
		return int64(b.state(t, target).Msgs)
	}
	ends, err := b.kafka.Admin(t).ListEndOffsets(t.Context(), target)
	check(t, errors.Join(err, ends.Error()))
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// bytes is how much of the server's disk the target takes.
func (b *bus) bytes(t testing.TB, target string) (sum int64) {
	t.Helper()
	if b.kafka == nil {
		return int64(b.state(t, target).Bytes)
	}
	var all kadm.TopicsSet
	for p := range b.partitions {
		all.Add(target, p)
	}
	described, err := b.kafka.Admin(t).DescribeAllLogDirs(t.Context(), all)
	check(t, err)
	for _, broker := range described {
		sum += broker.Size()
	}
	return sum
}

func (b *bus) state(t testing.TB, target string) jetstream.StreamState {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), target)
	check(t, err)
	return stream.CachedInfo().State
}

// revisionOf returns the revision in an event of a row, which all programs write as JSON; empty for
// another message, such as a claim. That of row n is the MD5 of its number.
func revisionOf(value []byte) string {
	_, rest, _ := bytes.Cut(value, []byte(`"revision":"`))
	revision, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(revision)
}

func revision(n int) string {
	sum := md5.Sum([]byte(fmt.Sprint(n)))
	return hex.EncodeToString(sum[:])
}

// receipt is an event that a consumer has received.
type receipt struct {
	revision string
	at       time.Time
	value    []byte
}

// soon has a client ask again soon about a topic that was made a moment ago, in place of seconds
// later.
var soon = kgo.MetadataMinAge(20 * time.Millisecond)

// follow calls each for every event from the beginning of the target until stop is called, or the
// test ends.
func (b *bus) follow(t testing.TB, target string, each func(receipt)) (stop func()) {
	t.Helper()
	received := func(value []byte, at time.Time) {
		if of := revisionOf(value); of != "" {
			each(receipt{of, at, value})
		}
	}
	if b.kafka == nil {
		consumer, err := b.js.OrderedConsumer(t.Context(), target, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
		check(t, err)
		messages, err := consumer.Messages()
		check(t, err)
		return consume(t, messages.Stop, func(ctx context.Context) error {
			for {
				m, err := messages.Next(jetstream.NextContext(ctx))
				switch {
				case errors.Is(err, jetstream.ErrNoHeartbeat):
				case err != nil:
					return err
				default:
					received(m.Data(), time.Now())
				}
			}
		})
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers()...), kgo.ConsumeTopics(target), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Second), soon)
	check(t, err)
	return consume(t, client.Close, func(ctx context.Context) error {
		for {
			fetches := client.PollFetches(ctx)
			at := time.Now()
			for _, e := range fetches.Errors() {
				return e.Err
			}
			fetches.EachRecord(func(r *kgo.Record) { received(r.Value, at) })
		}
	})
}

// consume runs work until stop is called; an error before that fails the test.
func consume(t testing.TB, release func(), work func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := work(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the consumer ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done; release() })
	t.Cleanup(stop)
	return stop
}
