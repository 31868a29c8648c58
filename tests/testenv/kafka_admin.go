package testenv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/tests/must"
)

// CreateTopic creates a topic and waits until each of its partitions has a leader.
func (s *KafkaServer) CreateTopic(t testing.TB, name string, partitions int32, configs map[string]*string) {
	t.Helper()
	s.administer(t, "create topic "+name, func(ctx context.Context, admin *kadm.Client) error {
		// Names are used once. A broker whose heartbeat came late on a busy machine is fenced for a
		// moment, and counts for nothing.
		_, err := admin.CreateTopic(ctx, partitions, -1, configs, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		return hasLeaders(ctx, admin, name, partitions)
	})
}

// DeleteTopic deletes a topic and waits until the broker no longer knows it.
func (s *KafkaServer) DeleteTopic(t testing.TB, name string) {
	t.Helper()
	s.administer(t, "delete topic "+name, func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, name)
		if there := hasLeaders(ctx, admin, name, 1); !errors.Is(there, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("it is still there: %w", errors.Join(err, there))
		}
		return nil
	})
}

// AddPartitions gives a topic more partitions; partitions is their new number.
func (s *KafkaServer) AddPartitions(t testing.TB, name string, partitions int32) {
	t.Helper()
	s.administer(t, "add partitions to "+name, func(ctx context.Context, admin *kadm.Client) error {
		added, err := admin.UpdatePartitions(ctx, int(partitions), name)
		if there := hasLeaders(ctx, admin, name, partitions); there != nil {
			return errors.Join(there, err, added.Error())
		}
		return nil
	})
}

// ConfigureTopic sets configs of a topic, max.message.bytes for instance, and waits until the
// broker shows them. A nil value is the broker's default.
func (s *KafkaServer) ConfigureTopic(t testing.TB, name string, configs map[string]*string) {
	t.Helper()
	s.administer(t, "configure topic "+name, func(ctx context.Context, admin *kadm.Client) error {
		var changes []kadm.AlterConfig
		for key, value := range configs {
			change := kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: value}
			if value == nil {
				change.Op = kadm.DeleteConfig
			}
			changes = append(changes, change)
		}
		altered, err := admin.AlterTopicConfigs(ctx, changes, name)
		for _, one := range altered {
			err = errors.Join(err, one.Err)
		}
		return errors.Join(err, topicShows(ctx, admin, name, configs))
	})
}

// For nil it wants any value but one that was set.
func topicShows(ctx context.Context, admin *kadm.Client, name string, configs map[string]*string) error {
	described, err := admin.DescribeTopicConfigs(ctx, name)
	for _, topic := range described {
		err = errors.Join(err, topic.Err)
		for _, shown := range topic.Configs {
			want, asked := configs[shown.Key]
			switch set := shown.Source == kmsg.ConfigSourceDynamicTopicConfig; {
			case !asked:
			case set != (want != nil), set && (shown.Value == nil || *shown.Value != *want):
				err = errors.Join(err, fmt.Errorf("%s is not what it was set to yet", shown.Key))
			}
		}
	}
	return err
}

func hasLeaders(ctx context.Context, admin *kadm.Client, name string, partitions int32) error {
	topics, err := admin.ListTopics(ctx, name)
	if err := errors.Join(err, topics[name].Err); err != nil {
		return err
	}
	if n := len(topics[name].Partitions); n != int(partitions) {
		return fmt.Errorf("%d of %d partitions are there", n, partitions)
	}
	for _, partition := range topics[name].Partitions {
		err = errors.Join(err, partition.Err)
	}
	return err
}

// SetPassword gives KafkaUser another password for SCRAM-SHA-512.
func (s *KafkaServer) SetPassword(t testing.TB, password string) {
	t.Helper()
	s.administer(t, "set a password", func(ctx context.Context, admin *kadm.Client) error {
		altered, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: KafkaUser, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
		return errors.Join(err, altered.Error())
	})
}

// It tries until that succeeds.
func (s *KafkaServer) administer(t testing.TB, what string, do func(context.Context, *kadm.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	must.Until(t, answerWithin, what, func() any { return do(ctx, s.Admin(t)) })
}

// Admin returns a client that asks the brokers and orders them, the same one at each call. What it
// has heard of a topic is old after the shortest time.
func (s *KafkaServer) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	s.connecting.Do(func() {
		client := must.Get(kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.MetadataMinAge(10*time.Millisecond)))(t)
		s.admin = kadm.NewClient(client)
		AtExit(s.admin.Close)
	})
	return s.admin
}
