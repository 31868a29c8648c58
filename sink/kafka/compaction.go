package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

var _ sink.Compactor = (*Sink)(nil)

// tombstonesStay is the default of delete.retention.ms.
const tombstonesStay = 24 * time.Hour

const (
	cleanupPolicy   = "cleanup.policy"
	compact         = "compact"
	deleteRetention = "delete.retention.ms"
	resourceTopic   = 2
)

// Compaction implements [sink.Compactor] by the configuration of a topic, which shows to a login
// with DESCRIBE_CONFIGS. A topic that is missing is waited for.
func (s *Sink) Compaction(ctx context.Context, topic string) (found sink.Compaction, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var hidden error
	err = s.reader.Retry(ctx, "configuration of "+topic, topic, func() (generation int, err error) {
		found, generation, err = s.compaction(ctx, topic)
		if errors.Is(err, sink.ErrHidden) {
			hidden, err = err, nil
		}
		return generation, err
	})
	if err != nil {
		return sink.Compaction{}, err
	}
	return found, hidden
}

func (s *Sink) compaction(ctx context.Context, topic string) (found sink.Compaction, generation int, err error) {
	found.Tombstones = tombstonesStay
	all, generation, err := s.configs(ctx, []string{topic}, cleanupPolicy, deleteRetention)
	if err != nil {
		return found, generation, err
	}
	config, listed := all[topic]
	policy, shown := config.values[cleanupPolicy]
	switch {
	case !listed:
		return found, generation, fmt.Errorf("the broker does not tell the configuration of topic %s", topic)
	case errors.Is(config.err, kafkago.TopicAuthorizationFailed):
		return found, generation, fmt.Errorf("%w: grant DESCRIBE_CONFIGS on topic %s to the user of bridge: %w", sink.ErrHidden, topic, config.err)
	case config.err != nil:
		return found, generation, config.err
	}
	if ms, err := strconv.ParseInt(config.values[deleteRetention], 10, 64); err == nil {
		found.Tombstones = time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	}
	if !shown {
		return found, generation, fmt.Errorf("%w: the broker does not tell the cleanup.policy of topic %s", sink.ErrHidden, topic)
	}
	found.On = strings.Contains(policy, compact)
	return found, generation, nil
}

// topicConfig is what a broker tells of a topic's configuration, or why it does not.
type topicConfig struct {
	values map[string]string
	err    error
}

func (s *Sink) configs(ctx context.Context, topics []string, settings ...string) (map[string]topicConfig, int, error) {
	request := &describeconfigs.Request{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{ResourceType: resourceTopic, ResourceName: topic, ConfigNames: settings})
	}
	answered, generation, err := s.cluster.RoundTrip(ctx, request)
	if err != nil {
		return nil, generation, err
	}
	all := make(map[string]topicConfig, len(topics))
	for _, resource := range answered.(*describeconfigs.Response).Resources {
		config := topicConfig{make(map[string]string), broker.Answer(resource.ErrorCode, resource.ErrorMessage)}
		for _, entry := range resource.ConfigEntries {
			config.values[entry.ConfigName] = entry.ConfigValue
		}
		all[resource.ResourceName] = config
	}
	return all, generation, nil
}
