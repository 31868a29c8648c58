package testenv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic creates a topic and waits until each of its partitions has a leader. A nil value in
// configs is the broker's default.
func (s *KafkaServer) CreateTopic(t testing.TB, name string, partitions int32, configs map[string]*string) {
	t.Helper()
	s.administer(t, "create topic "+name, func(ctx context.Context, client *kgo.Client) error {
		// A broker whose heartbeat came late on a busy machine is fenced for a moment, and counts
		// for nothing.
		var err error
		_ = poll(ctx, func() error {
			if err = createTopic(ctx, client, name, partitions, configs); errors.Is(err, kerr.InvalidReplicationFactor) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
		return poll(ctx, func() error { return hasLeaders(ctx, client, name, partitions) })
	})
}

// DeleteTopic deletes a topic and waits until the broker no longer knows it.
func (s *KafkaServer) DeleteTopic(t testing.TB, name string) {
	t.Helper()
	s.administer(t, "delete topic "+name, func(ctx context.Context, client *kgo.Client) error {
		if err := deleteTopic(ctx, client, name); err != nil {
			return err
		}
		return poll(ctx, func() error {
			if err := hasLeaders(ctx, client, name, 1); !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("it is still there: %w", err)
			}
			return nil
		})
	})
}

// AddPartitions gives a topic more partitions; partitions is their new number.
func (s *KafkaServer) AddPartitions(t testing.TB, name string, partitions int32) {
	t.Helper()
	s.administer(t, "add partitions to "+name, func(ctx context.Context, client *kgo.Client) error {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, partitions
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, topic)
		res, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); err != nil {
			return err
		}
		return poll(ctx, func() error { return hasLeaders(ctx, client, name, partitions) })
	})
}

// ConfigureTopic sets configs of a topic, max.message.bytes for instance, and waits until the
// broker shows them. A nil value is the broker's default.
func (s *KafkaServer) ConfigureTopic(t testing.TB, name string, configs map[string]*string) {
	t.Helper()
	s.administer(t, "configure topic "+name, func(ctx context.Context, client *kgo.Client) error {
		if err := alterTopic(ctx, client, name, configs); err != nil {
			return err
		}
		return poll(ctx, func() error { return topicShows(ctx, client, name, configs) })
	})
}

// administer runs do with a client and half a minute.
func (s *KafkaServer) administer(t testing.TB, what string, do func(context.Context, *kgo.Client) error) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if err := do(ctx, client); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// poll repeats check until it returns nil or ctx ends.
func poll(ctx context.Context, check func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
