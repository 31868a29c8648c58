package bench

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// bus is a real bus as the benchmark sees it. A target is a topic or a stream.
type bus struct {
	*world.Bus
	name, version string
	// servers are the addresses.
	servers string
	// partitions of every topic.
	partitions int32
}

func kafkaOn(server *testenv.KafkaServer, partitions int32) *bus {
	return &bus{world.KafkaBus(server), "kafka", server.Version, strings.Join(server.Brokers(), ","), partitions}
}

func natsOn(server *testenv.NATSServer) *bus {
	return &bus{world.NATSBus(server), "jetstream", server.Version, server.URL(), 0}
}

// open makes a target, which is removed when the test ends, and returns what to set as DESTINATION.
func (b *bus) open(t testing.TB, target string) (destination string) {
	t.Helper()
	if b.Kafka == nil {
		return b.Open(t, target)
	}
	b.Kafka.CreateTopic(t, target, b.partitions, nil)
	t.Cleanup(func() { b.Kafka.DeleteTopic(t, target) })
	return target
}

// bytes is how much of the server's disk the target takes.
func (b *bus) bytes(t testing.TB, target string) (sum int64) {
	t.Helper()
	if b.Kafka == nil {
		stream, err := b.NATS.JetStream(t).Stream(t.Context(), target)
		check(t, err)
		return int64(stream.CachedInfo().State.Bytes)
	}
	var all kadm.TopicsSet
	for p := range b.partitions {
		all.Add(target, p)
	}
	described, err := b.Kafka.Admin(t).DescribeAllLogDirs(t.Context(), all)
	check(t, err)
	for _, broker := range described {
		sum += broker.Size()
	}
	return sum
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

// follow calls each for every event from the beginning of the target until stop is called, or the
// test ends.
func (b *bus) follow(t testing.TB, target string, each func(receipt)) (stop func()) {
	t.Helper()
	return b.Receive(t, target, func(m world.Message) {
		if of := revisionOf(m.Value); of != "" {
			each(receipt{of, time.Now(), m.Value})
		}
	})
}

// consume runs work until the test ends; an error before that fails the test.
func consume(t testing.TB, work func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the consumer ended: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}
