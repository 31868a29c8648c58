package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"bridge/internal/backoff"
	"bridge/sink"
)

var _ sink.Compactor = (*Sink)(nil)

const (
	cleanupPolicy = "cleanup.policy"
	compact       = "compact"
)

// Compacted implements [sink.Compactor] by the cleanup.policy of a topic, which shows to a login
// with DESCRIBE_CONFIGS.
func (s *Sink) Compacted(ctx context.Context, topic string) (compacted bool, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	who, begun := "configuration of "+topic, time.Now()
	var pause backoff.Backoff
	for {
		compacted, generation, err := s.cluster.compacted(ctx, topic)
		switch {
		case ctx.Err() != nil:
			s.faults.drop(who)
			return false, context.Cause(ctx)
		case err == nil, errors.Is(err, sink.ErrHidden):
			s.faults.ok(who)
			return compacted, err
		case s.giveUpAfter > 0 && time.Since(begun) > s.giveUpAfter:
			s.faults.drop(who)
			return false, explain(topic, err)
		}
		if again := remedyFor(err); again == reroute || again == inspect {
			s.cluster.renew(generation)
		}
		s.faults.fail(who, scope(topic, 0, err), explain(topic, err))
		if err := pause.Wait(ctx); err != nil {
			s.faults.drop(who)
			return false, err
		}
	}
}

// compacted asks once.
func (c *cluster) compacted(ctx context.Context, topic string) (compacted bool, generation int, err error) {
	answered, generation, err := c.roundTrip(ctx, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
		{ResourceType: resourceTopic, ResourceName: topic, ConfigNames: []string{cleanupPolicy}},
	}})
	if err != nil {
		return false, generation, err
	}
	for _, resource := range answered.(*describeconfigs.Response).Resources {
		if resource.ResourceName != topic {
			continue
		}
		code := answer(resource.ErrorCode, resource.ErrorMessage)
		if errors.Is(code, kafkago.TopicAuthorizationFailed) {
			return false, generation, fmt.Errorf("%w: grant DESCRIBE_CONFIGS on topic %s to the user of bridge: %w", sink.ErrHidden, topic, code)
		}
		if code != nil {
			return false, generation, code
		}
		for _, entry := range resource.ConfigEntries {
			if entry.ConfigName == cleanupPolicy {
				return strings.Contains(entry.ConfigValue, compact), generation, nil
			}
		}
		return false, generation, fmt.Errorf("%w: the broker does not tell the cleanup.policy of topic %s", sink.ErrHidden, topic)
	}
	return false, generation, fmt.Errorf("the broker does not tell the configuration of topic %s", topic)
}
