package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/sink"
)

var (
	// errOther says that a topic has another id than it had.
	errOther = errors.New("it was created again")
	// errSilent says that messages did not come.
	errSilent = errors.New("nothing more came")
)

// attempts retries what reading asks of a cluster. It serves one goroutine.
type attempts struct {
	cluster *cluster
	faults  *faults
	// who names this in faults; topic and partition are what they concern.
	who, topic string
	partition  int32
	// giveUp bounds faults in succession; 0 means no bound.
	giveUp time.Duration
	// waits: a topic that does not exist is waited for.
	waits bool

	pause backoff.Backoff
	// failing and missing are when the present faults began.
	failing, missing time.Time
	// looked is when an idle partition was looked at.
	looked time.Time
}

// retry calls do until it succeeds. do returns the generation of the view that it went by.
func (t *attempts) retry(ctx context.Context, do func() (generation int, err error)) error {
	for {
		generation, err := do()
		if err == nil {
			return nil
		}
		if err := t.failed(ctx, generation, err); err != nil {
			return err
		}
	}
}

// succeeded notes an answer.
func (t *attempts) succeeded() {
	if t.failing.IsZero() && t.missing.IsZero() {
		return
	}
	t.failing, t.missing = time.Time{}, time.Time{}
	t.pause.Reset()
	t.faults.ok(t.who)
}

// report notes a fault that answers go with.
func (t *attempts) report(err error) {
	if t.failing.IsZero() {
		t.failing = time.Now()
	}
	t.faults.fail(t.who, tp(t.topic, t.partition), err)
}

// ended notes that nobody tries any more, because of err unless that is nil.
func (t *attempts) ended(ctx context.Context, err error) {
	if err != nil || ctx.Err() != nil {
		t.faults.drop(t.who)
		return
	}
	t.faults.ok(t.who)
}

// failed pauses after a fault and returns nil when it is worth trying again, else the error to end
// with.
func (t *attempts) failed(ctx context.Context, generation int, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return fmt.Errorf("%w: grant READ on topic %s, and DESCRIBE, to the user of bridge: %w", sink.ErrUnreadable, t.topic, err)
	}
	if again := remedyFor(err); (again == reroute || again == inspect) && !errors.Is(err, errThrottled) && !errors.Is(err, errBatch) && !errors.Is(err, errOther) {
		t.cluster.renew(generation)
	}
	now := time.Now()
	if !t.waits && (missing(err) || errors.Is(err, errOther)) {
		if t.missing.IsZero() {
			t.missing = now
		}
		if now.Sub(t.missing) < goneAfter {
			return backoff.Pause(ctx, verdictPause)
		}
		return fmt.Errorf("%w: %w", sink.ErrGone, explain(t.topic, err))
	}
	t.missing = time.Time{}
	if t.failing.IsZero() {
		t.failing = now
	}
	explained := explain(t.topic, err)
	if t.giveUp > 0 && (now.Sub(t.failing) > t.giveUp || errors.Is(err, kafkago.SASLAuthenticationFailed)) {
		return explained
	}
	t.faults.fail(t.who, scope(t.topic, t.partition, err), explained)
	return t.pause.Wait(ctx)
}

// silent is the error of giving up on messages that do not come.
func (t *attempts) silent(highWatermark int64) error {
	err := fmt.Errorf("%w within %v though some is left", errSilent, t.giveUp)
	if highWatermark > 0 {
		err = fmt.Errorf("%w (high watermark %d): %w", err, highWatermark, errHeldUp)
	}
	return err
}

// missing reports whether an error says that a topic or partition does not exist.
func missing(err error) bool {
	return errors.Is(err, kafkago.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}

// What ListOffsets is asked for: the first offset that is left, or the end.
const (
	earliest = -2
	latest   = -1
)

// TPs implements [sink.Reader]. It needs DESCRIBE on the topics. A topic that is missing is asked
// for again for a few seconds.
func (s *Sink) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var tps []sink.TP
	for _, topic := range destinations {
		if bus.CheckTopic(topic) != nil {
			continue
		}
		t := attempts{cluster: s.cluster, faults: s.faults, who: "describe " + topic, topic: topic, partition: -1, giveUp: s.options.GiveUpAfter}
		found, err := t.describe(ctx)
		t.ended(ctx, err)
		if errors.Is(err, sink.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the partitions of %s: %w", topic, err)
		}
		tps = append(tps, found...)
	}
	return tps, nil
}

func (t *attempts) describe(ctx context.Context) (tps []sink.TP, err error) {
	var id string
	var partitions []int32
	if err := t.retry(ctx, func() (int, error) {
		found, generation, err := t.cluster.metadata(ctx, []string{t.topic})
		if err != nil {
			return generation, err
		}
		partitions = nil
		for i := range found.Topics {
			topic := &found.Topics[i]
			if err := answer(topic.ErrorCode, ""); err != nil {
				return generation, err
			}
			id = idOf(topic)
			for _, p := range topic.Partitions {
				partitions = append(partitions, p.Partition)
			}
		}
		return generation, nil
	}); err != nil {
		return nil, err
	}
	t.cluster.follow([]string{t.topic})
	slices.Sort(partitions)
	var found map[int32]bounds
	if err := t.retry(ctx, func() (generation int, err error) {
		found, generation, err = t.cluster.bounds(ctx, t.topic, partitions)
		return generation, err
	}); err != nil {
		return nil, err
	}
	for _, p := range partitions {
		b := found[p]
		tps = append(tps, sink.TP{
			Name: tp(t.topic, p), Destination: t.topic, Incarnation: id,
			First: uint64(b.first), End: uint64(b.end), Stable: uint64(min(b.stable, b.end)), Expired: b.first > 0,
		})
	}
	return tps, nil
}

// bounds are the log start, the high watermark and the last stable offset of a partition.
type bounds struct{ first, end, stable int64 }

// bounds asks the leaders for the bounds of partitions.
func (c *cluster) bounds(ctx context.Context, topic string, partitions []int32) (map[int32]bounds, int, error) {
	found := make(map[int32]bounds, len(partitions))
	var generation int
	for _, question := range []struct {
		timestamp int64
		isolation int8
		set       func(*bounds, int64)
	}{
		{earliest, 0, func(b *bounds, at int64) { b.first = at }},
		{latest, readCommitted, func(b *bounds, at int64) { b.stable = at }},
		// Last, so that nothing that was read before lies beyond it.
		{latest, 0, func(b *bounds, at int64) { b.end = at }},
	} {
		request := &listoffsets.Request{ReplicaID: -1, IsolationLevel: question.isolation, Topics: []listoffsets.RequestTopic{{Topic: topic}}}
		for _, p := range partitions {
			request.Topics[0].Partitions = append(request.Topics[0].Partitions,
				listoffsets.RequestPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: question.timestamp})
		}
		res, at, err := c.roundTrip(ctx, request)
		generation = at
		if err != nil {
			return nil, generation, err
		}
		answered := 0
		for _, t := range res.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if err := answer(p.ErrorCode, ""); err != nil {
					return nil, generation, err
				}
				if t.Topic != topic || p.Offset < 0 {
					return nil, generation, fmt.Errorf("the broker gives %d as a bound of %s", p.Offset, tp(t.Topic, p.Partition))
				}
				b := found[p.Partition]
				question.set(&b, p.Offset)
				found[p.Partition] = b
				answered++
			}
		}
		if answered != len(partitions) {
			return nil, generation, fmt.Errorf("the brokers answer for %d of %d partitions of %s", answered, len(partitions), topic)
		}
	}
	return found, generation, nil
}

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
	t := attempts{cluster: s.cluster, faults: s.faults, who: "configuration of " + topic, topic: topic, giveUp: s.options.GiveUpAfter, waits: true}
	var hidden error
	err = t.retry(ctx, func() (generation int, err error) {
		found, generation, err = s.cluster.compaction(ctx, topic)
		if errors.Is(err, sink.ErrHidden) {
			hidden, err = err, nil
		}
		return generation, err
	})
	t.ended(ctx, err)
	if err != nil {
		return sink.Compaction{}, err
	}
	return found, hidden
}

func (c *cluster) compaction(ctx context.Context, topic string) (found sink.Compaction, generation int, err error) {
	found.Tombstones = tombstonesStay
	all, generation, err := c.configs(ctx, []string{topic}, cleanupPolicy, deleteRetention)
	if err != nil {
		return found, generation, err
	}
	config, told := all[topic]
	policy, shown := config.values[cleanupPolicy]
	switch {
	case !told:
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

func (c *cluster) configs(ctx context.Context, topics []string, settings ...string) (map[string]topicConfig, int, error) {
	request := &describeconfigs.Request{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{ResourceType: resourceTopic, ResourceName: topic, ConfigNames: settings})
	}
	answered, generation, err := c.roundTrip(ctx, request)
	if err != nil {
		return nil, generation, err
	}
	all := make(map[string]topicConfig, len(topics))
	for _, resource := range answered.(*describeconfigs.Response).Resources {
		config := topicConfig{make(map[string]string), answer(resource.ErrorCode, resource.ErrorMessage)}
		for _, entry := range resource.ConfigEntries {
			config.values[entry.ConfigName] = entry.ConfigValue
		}
		all[resource.ResourceName] = config
	}
	return all, generation, nil
}
