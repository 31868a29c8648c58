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

	"bridge/internal/backoff"
	"bridge/sink"
)

var _ sink.Compactor = (*Sink)(nil)

// tombstonesStay is the default of delete.retention.ms.
const tombstonesStay = 24 * time.Hour

const (
	cleanupPolicy   = "cleanup.policy"
	compact         = "compact"
	deleteRetention = "delete.retention.ms"
)

// Compaction implements [sink.Compactor] by the configuration of a topic, which shows to a login
// with DESCRIBE_CONFIGS.
func (s *Sink) Compaction(ctx context.Context, topic string) (sink.Compaction, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	who, begun := "configuration of "+topic, time.Now()
	var pause backoff.Backoff
	for {
		found, generation, err := s.cluster.compaction(ctx, topic)
		switch {
		case ctx.Err() != nil:
			s.faults.drop(who)
			return sink.Compaction{}, context.Cause(ctx)
		case err == nil, errors.Is(err, sink.ErrHidden):
			s.faults.ok(who)
			return found, err
		case s.giveUpAfter > 0 && time.Since(begun) > s.giveUpAfter:
			s.faults.drop(who)
			return sink.Compaction{}, explain(topic, err)
		}
		if again := remedyFor(err); again == reroute || again == inspect {
			s.cluster.renew(generation)
		}
		s.faults.fail(who, scope(topic, 0, err), explain(topic, err))
		if err := pause.Wait(ctx); err != nil {
			s.faults.drop(who)
			return sink.Compaction{}, err
		}
	}
}

// compaction asks once.
func (c *cluster) compaction(ctx context.Context, topic string) (found sink.Compaction, generation int, err error) {
	found.Tombstones = tombstonesStay
	answered, generation, err := c.roundTrip(ctx, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
		{ResourceType: resourceTopic, ResourceName: topic, ConfigNames: []string{cleanupPolicy, deleteRetention}},
	}})
	if err != nil {
		return found, generation, err
	}
	for _, resource := range answered.(*describeconfigs.Response).Resources {
		if resource.ResourceName != topic {
			continue
		}
		code := answer(resource.ErrorCode, resource.ErrorMessage)
		if errors.Is(code, kafkago.TopicAuthorizationFailed) {
			return found, generation, fmt.Errorf("%w: grant DESCRIBE_CONFIGS on topic %s to the user of bridge: %w", sink.ErrHidden, topic, code)
		}
		if code != nil {
			return found, generation, code
		}
		told := false
		for _, entry := range resource.ConfigEntries {
			switch entry.ConfigName {
			case cleanupPolicy:
				told, found.On = true, strings.Contains(entry.ConfigValue, compact)
			case deleteRetention:
				if ms, err := strconv.ParseInt(entry.ConfigValue, 10, 64); err == nil {
					found.Tombstones = time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
				}
			}
		}
		if !told {
			return found, generation, fmt.Errorf("%w: the broker does not tell the cleanup.policy of topic %s", sink.ErrHidden, topic)
		}
		return found, generation, nil
	}
	return found, generation, fmt.Errorf("the broker does not tell the configuration of topic %s", topic)
}
