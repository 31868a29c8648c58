package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
)

var (
	errOther  = errors.New("it was created again")
	errSilent = errors.New("nothing more came")
)

// attempts retries what reading asks of a cluster. It serves one goroutine.
type attempts struct {
	cluster *Cluster
	faults  bus.Faults
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

// ended notes that nobody tries any more, because of err unless that is nil.
func (t *attempts) ended(ctx context.Context, err error) {
	if err != nil || ctx.Err() != nil {
		t.faults.Drop(t.who)
		return
	}
	t.faults.OK(t.who)
}

// failed pauses after a fault and returns nil when it is worth trying again, else the error to end
// with.
func (t *attempts) failed(ctx context.Context, generation int, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return fmt.Errorf("%w: grant READ on topic %s, and DESCRIBE, to the user of this connection: %w", bus.ErrUnreadable, t.topic, err)
	}
	if again := RemedyFor(err); (again == Reroute || again == Inspect) && !errors.Is(err, errThrottled) && !errors.Is(err, errBatch) && !errors.Is(err, errOther) {
		t.cluster.Renew(generation)
	}
	now := time.Now()
	missing := errors.Is(err, kafkago.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
	if !t.waits && (missing || errors.Is(err, errOther)) {
		if t.missing.IsZero() {
			t.missing = now
		}
		if now.Sub(t.missing) < goneAfter {
			return backoff.Pause(ctx, verdictPause)
		}
		return fmt.Errorf("%w: %w", bus.ErrGone, t.cluster.Explain(t.topic, err))
	}
	t.missing = time.Time{}
	if t.failing.IsZero() {
		t.failing = now
	}
	explained := t.cluster.Explain(t.topic, err)
	if t.giveUp > 0 && (now.Sub(t.failing) > t.giveUp || errors.Is(err, kafkago.SASLAuthenticationFailed)) {
		return explained
	}
	t.faults.Fail(t.who, Scope(t.topic, t.partition, err), explained)
	return t.pause.Wait(ctx)
}

// Retry repeats a request to brokers about a topic until it succeeds. do returns the
// generation of the view of the cluster that it went by. A topic that does not exist is waited for.
func (r *Reader) Retry(ctx context.Context, who, topic string, do func() (generation int, err error)) error {
	t := r.attempts(who, topic, -1)
	t.waits = true
	err := t.retry(ctx, do)
	t.ended(ctx, err)
	return err
}

// What ListOffsets is asked for: the first offset that is left, or the end.
const (
	earliest = -2
	latest   = -1
)

func (t *attempts) describe(ctx context.Context) (tps []bus.TP, err error) {
	var id string
	var partitions []kmsg.MetadataResponseTopicPartition
	var found map[int32]bounds
	if err := t.retry(ctx, func() (int, error) {
		answer, generation, err := t.cluster.Metadata(ctx, []string{t.topic})
		if err != nil {
			return generation, err
		}
		partitions = nil
		for i := range answer.Topics {
			topic := &answer.Topics[i]
			if err := Answer(topic.ErrorCode, ""); err != nil {
				return generation, err
			}
			id, partitions = IDOf(topic), append(partitions, topic.Partitions...)
		}
		if err := led(t.topic, partitions); err != nil {
			return generation, err
		}
		t.cluster.Follow([]string{t.topic})
		found, generation, err = t.cluster.bounds(ctx, t.topic, partitions...)
		return generation, err
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	for _, p := range partitions {
		b := found[p.Partition]
		tps = append(tps, bus.TP{
			Name: TPName(t.topic, p.Partition), Destination: t.topic, Incarnation: id,
			First: uint64(b.first), End: uint64(b.end), Stable: uint64(min(b.stable, b.end)), Expired: b.first > 0,
		})
	}
	return tps, nil
}

// led returns an error where a partition has no leader: no other view of the cluster has one.
func led(topic string, partitions []kmsg.MetadataResponseTopicPartition) error {
	for _, p := range partitions {
		if p.Leader < 0 {
			return fmt.Errorf("%s: %w", TPName(topic, p.Partition), kafkago.LeaderNotAvailable)
		}
	}
	return nil
}

// bounds are the log start, the high watermark and the last stable offset of a partition.
type bounds struct{ first, end, stable int64 }

// bounds returns the bounds of partitions by number. A leader of another epoch than theirs, -1 for
// any, tells none: one that was followed by another knows too little.
func (c *Cluster) bounds(ctx context.Context, topic string, partitions ...kmsg.MetadataResponseTopicPartition) (map[int32]bounds, int, error) {
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
				listoffsets.RequestPartition{Partition: p.Partition, CurrentLeaderEpoch: p.LeaderEpoch, Timestamp: question.timestamp})
		}
		res, at, err := c.RoundTrip(ctx, request)
		generation = at
		if err != nil {
			return nil, generation, err
		}
		answered := 0
		for _, t := range res.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if err := Answer(p.ErrorCode, ""); err != nil {
					return nil, generation, err
				}
				if t.Topic != topic || p.Offset < 0 {
					return nil, generation, fmt.Errorf("the broker gives %d as a bound of %s", p.Offset, TPName(t.Topic, p.Partition))
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

// Everywhere is the tp of a fault that concerns the whole cluster.
const Everywhere = "kafka"

// TPName names a partition as offsets do.
func TPName(topic string, partition int32) string { return topic + "/" + strconv.Itoa(int(partition)) }

type brokerError struct {
	code    kafkago.Error
	message string
}

func (e *brokerError) Error() string {
	if e.message == "" {
		return e.code.Error()
	}
	return fmt.Sprintf("%s (%s)", e.code.Error(), e.message)
}

func (e *brokerError) Unwrap() error { return e.code }

// Answer returns nil for code 0.
func Answer(code int16, message string) error {
	if code == 0 {
		return nil
	}
	return &brokerError{kafkago.Error(code), message}
}

// Remedy is what a worker does about a fault.
type Remedy int

const (
	// Again: send the same bytes once more.
	Again Remedy = iota
	// Reroute: ask who leads the partition now, then as again.
	Reroute
	// Inspect: find out what the view of the cluster lacks, then as again.
	Inspect
	// Restart: the broker has another idea of the producer or its sequence; begin a new one. A
	// transaction is lost.
	Restart
	// Split: the broker refuses the batch for its contents; send less of it, a single record not
	// at all.
	Split
	// Done: the broker has the batch already.
	Done
)

type reach int

const (
	onePartition reach = iota
	oneTopic
	allTopics
)

// verdict is what follows from an answer: advice is for an operator, with %s for the topic.
type verdict struct {
	Remedy Remedy
	reach  reach
	advice string
}

// verdicts are the verdicts of answers that are not merely tried again: what is not known to be for
// good is taken as transient.
var verdicts = map[kafkago.Error]verdict{
	kafkago.MessageSizeTooLarge:     {Remedy: Split},
	kafkago.RecordListTooLarge:      {Remedy: Split},
	kafkago.InvalidRecord:           {Remedy: Split},
	kafkago.DuplicateSequenceNumber: {Remedy: Done},

	kafkago.OutOfOrderSequenceNumber:     {Remedy: Restart},
	kafkago.UnknownProducerId:            {Remedy: Restart},
	kafkago.InvalidProducerEpoch:         {Remedy: Restart},
	kafkago.ProducerFenced:               {Remedy: Restart},
	kafkago.InvalidProducerIDMapping:     {Remedy: Restart},
	kafkago.InvalidTransactionState:      {Remedy: Restart},
	kafkago.TransactionCoordinatorFenced: {Remedy: Restart},

	kafkago.NotLeaderForPartition: {Remedy: Reroute},
	kafkago.ReplicaNotAvailable:   {Remedy: Reroute},
	kafkago.NetworkException:      {Remedy: Reroute},
	kafkago.FencedLeaderEpoch:     {Remedy: Reroute},
	kafkago.UnknownLeaderEpoch:    {Remedy: Reroute},
	kafkago.KafkaStorageError:     {Remedy: Reroute},
	kafkago.ListenerNotFound:      {Remedy: Reroute},
	kafkago.BrokerNotAvailable:    {Reroute, allTopics, ""},
	kafkago.UnknownTopicOrPartition: {Reroute, oneTopic,
		"topic %s does not exist, or DESCRIBE on it is not granted: create it, for nothing else does"},
	kafkago.SASLAuthenticationFailed: {Reroute, allTopics,
		"the login is refused, check the mechanism, and user name and password, or the token"},
	kafkago.IllegalSASLState: {Remedy: Reroute, reach: allTopics},

	// So answers a broker that is cut off from the others, too, for as long as it is.
	kafkago.RequestTimedOut:              {Remedy: Reroute},
	kafkago.GroupCoordinatorNotAvailable: {Remedy: Reroute},
	kafkago.NotCoordinatorForGroup:       {Remedy: Reroute},

	kafkago.InvalidTopic:               {reach: oneTopic},
	kafkago.TopicAuthorizationFailed:   {Again, oneTopic, "grant WRITE and DESCRIBE on topic %s to the user of this connection"},
	kafkago.ClusterAuthorizationFailed: {Again, allTopics, "grant WRITE on topic %s, or IDEMPOTENT_WRITE on the cluster, to the user of this connection"},
	kafkago.SecurityDisabled:           {reach: allTopics},
	kafkago.UnsupportedSASLMechanism:   {Again, allTopics, "the broker does not offer this SASL mechanism"},
	kafkago.UnsupportedCompressionType: {Again, oneTopic, "topic %s does not take this compression, choose another"},
	kafkago.InvalidTimestamp:           {Again, oneTopic, "topic %s refuses the time of the records, compare the clocks of this host and the broker (message.timestamp.before.max.ms and after.max.ms)"},
	// kafka-go's text is about groups; what answers is the coordinator of producer ids.
	kafkago.GroupLoadInProgress:          {advice: "the broker has just started and cannot hand out producer ids yet"},
	kafkago.NotEnoughReplicas:            {advice: "too few replicas of topic %s are in sync (min.insync.replicas)"},
	kafkago.NotEnoughReplicasAfterAppend: {advice: "too few replicas of topic %s are in sync (min.insync.replicas)"},
}

func verdictOf(err error) verdict {
	var code kafkago.Error
	switch {
	case errors.As(err, &code):
		return verdicts[code]
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return verdict{Remedy: Inspect}
	}
	return verdict{Remedy: Reroute, reach: allTopics}
}

func RemedyFor(err error) Remedy { return verdictOf(err).Remedy }

// Scope names how much of the cluster a fault concerns: everywhere, a topic, or one partition of
// it; -1 is none of these.
func Scope(topic string, partition int32, err error) string {
	switch reach := verdictOf(err).reach; {
	case reach == allTopics:
		return Everywhere
	case reach == oneTopic, partition < 0:
		return topic
	}
	return TPName(topic, partition)
}

// Explain adds what an operator can do about a fault.
func (c *Cluster) Explain(topic string, err error) error {
	advice := verdictOf(err).advice
	switch {
	case errors.Is(err, kafkago.IllegalSASLState):
		return c.options.Errorf("this listener asks for no login: unset %s, or name the listener that does in %s: %w", SettingMechanism, SettingBrokers, err)
	case advice == "":
		return err
	}
	return fmt.Errorf("%s: %w", strings.Replace(advice, "%s", topic, 1), err)
}
