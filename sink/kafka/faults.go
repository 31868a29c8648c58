package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"example.org/bridge/client/bus"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// everywhere is the tp of a fault that concerns the whole cluster.
const everywhere = "kafka"

// tp names a partition as offsets do.
func tp(topic string, partition int32) string { return topic + "/" + strconv.Itoa(int(partition)) }

// parseTP is the inverse of tp.
func parseTP(name string) (topic string, partition int32, err error) {
	topic, number, _ := strings.Cut(name, "/")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || bus.CheckTopic(topic) != nil {
		return "", 0, fmt.Errorf("%q is not a partition of a topic", name)
	}
	return topic, int32(n), nil
}

// brokerError is a broker's answer.
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

// answer returns nil for code 0.
func answer(code int16, message string) error {
	if code == 0 {
		return nil
	}
	return &brokerError{kafkago.Error(code), message}
}

// remedy is what a worker does about a fault.
type remedy int

const (
	// again: send the same bytes once more.
	again remedy = iota
	// reroute: ask who leads the partition now, then as again.
	reroute
	// inspect: find out what the view of the cluster lacks, then as again.
	inspect
	// restart: the broker has another idea of the producer or its sequence; begin a new one. A
	// transaction is lost.
	restart
	// split: the broker refuses the batch for what is in it; send less of it, a single record not
	// at all.
	split
	// done: the broker has the batch already.
	done
)

// reach is how much of the cluster a fault concerns.
type reach int

const (
	onePartition reach = iota
	oneTopic
	allTopics
)

// verdict is what follows from an answer: advice is for an operator, with %s for the topic.
type verdict struct {
	remedy remedy
	reach  reach
	advice string
}

// verdicts are those of answers that are not merely tried again: what is not known to be for good
// is taken as transient.
var verdicts = map[kafkago.Error]verdict{
	kafkago.MessageSizeTooLarge:     {remedy: split},
	kafkago.RecordListTooLarge:      {remedy: split},
	kafkago.InvalidRecord:           {remedy: split},
	kafkago.DuplicateSequenceNumber: {remedy: done},

	kafkago.OutOfOrderSequenceNumber:     {remedy: restart},
	kafkago.UnknownProducerId:            {remedy: restart},
	kafkago.InvalidProducerEpoch:         {remedy: restart},
	kafkago.ProducerFenced:               {remedy: restart},
	kafkago.InvalidProducerIDMapping:     {remedy: restart},
	kafkago.InvalidTransactionState:      {remedy: restart},
	kafkago.TransactionCoordinatorFenced: {remedy: restart},

	kafkago.NotLeaderForPartition: {remedy: reroute},
	kafkago.LeaderNotAvailable:    {remedy: reroute},
	kafkago.ReplicaNotAvailable:   {remedy: reroute},
	kafkago.NetworkException:      {remedy: reroute},
	kafkago.FencedLeaderEpoch:     {remedy: reroute},
	kafkago.UnknownLeaderEpoch:    {remedy: reroute},
	kafkago.KafkaStorageError:     {remedy: reroute},
	kafkago.ListenerNotFound:      {remedy: reroute},
	kafkago.BrokerNotAvailable:    {reroute, allTopics, ""},
	kafkago.UnknownTopicOrPartition: {reroute, oneTopic,
		"topic %s does not exist, or DESCRIBE on it is not granted: create it (bridge creates no topics)"},
	kafkago.SASLAuthenticationFailed: {reroute, allTopics,
		"the login is refused, check the mechanism, and user name and password, or the token"},
	kafkago.IllegalSASLState: {remedy: reroute, reach: allTopics},

	kafkago.InvalidTopic:               {reach: oneTopic},
	kafkago.TopicAuthorizationFailed:   {again, oneTopic, "grant WRITE and DESCRIBE on topic %s to the user of bridge"},
	kafkago.ClusterAuthorizationFailed: {again, allTopics, "grant WRITE on topic %s, or IDEMPOTENT_WRITE on the cluster, to the user of bridge"},
	kafkago.SecurityDisabled:           {reach: allTopics},
	kafkago.UnsupportedSASLMechanism:   {again, allTopics, "the broker does not offer this SASL mechanism"},
	kafkago.UnsupportedCompressionType: {again, oneTopic, "topic %s does not take this compression, choose another"},
	kafkago.InvalidTimestamp:           {again, oneTopic, "topic %s refuses the time of the records, compare the clocks of this host and the broker"},
	// kafka-go's text is about groups; what answers is the coordinator of producer ids.
	kafkago.GroupLoadInProgress:          {advice: "the broker has just started and cannot hand out producer ids yet"},
	kafkago.NotEnoughReplicas:            {advice: "too few replicas of topic %s are in sync (min.insync.replicas)"},
	kafkago.NotEnoughReplicasAfterAppend: {advice: "too few replicas of topic %s are in sync (min.insync.replicas)"},
}

// verdictOf returns what follows from an error.
func verdictOf(err error) verdict {
	var code kafkago.Error
	switch {
	case errors.As(err, &code):
		return verdicts[code]
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return verdict{remedy: inspect}
	}
	return verdict{remedy: reroute, reach: allTopics}
}

func remedyFor(err error) remedy { return verdictOf(err).remedy }

// scope names how much of the cluster a fault concerns: everywhere, a topic, or one partition of
// it.
func scope(topic string, partition int32, err error) string {
	switch verdictOf(err).reach {
	case allTopics:
		return everywhere
	case oneTopic:
		return topic
	}
	return tp(topic, partition)
}

// explain adds what an operator can do about a fault.
func explain(topic string, err error) error {
	advice := verdictOf(err).advice
	switch {
	case errors.Is(err, kafkago.IllegalSASLState):
		return option.Errorf("this listener asks for no login: unset %s, or name the listener that does in %s: %w", option.KafkaSASLMechanism, option.SinkURL, err)
	case advice == "":
		return err
	}
	return fmt.Errorf("%s: %w", strings.Replace(advice, "%s", topic, 1), err)
}

// faults turns the faults of many workers into few: what concerns the cluster or a topic begins
// with the first worker that meets it and ends with the last.
type faults struct {
	log  *outage.Log
	hook sink.Fault

	mu sync.Mutex
	// scopeOf has who is held up by what, waiting counts them.
	scopeOf map[string]string
	waiting map[string]int
}

func newFaults(log *outage.Log, hook sink.Fault) *faults {
	return &faults{log: log, hook: hook, scopeOf: make(map[string]string), waiting: make(map[string]int)}
}

// fail notes that who is held up by a fault of scope, and by no other any more.
func (f *faults) fail(who, scope string, err error) {
	f.hook(scope, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scopeOf[who] != scope {
		f.end(who, f.log.OK)
		f.scopeOf[who] = scope
		f.waiting[scope]++
	}
	f.log.Fail(scope, err)
}

// ok notes that who is not held up.
func (f *faults) ok(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.OK)
}

// drop notes that who has given up; whether the fault lasts is not known.
func (f *faults) drop(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.Forget)
}

// endAll is ok, or with gaveUp drop, for all whose names begin with prefix.
func (f *faults) endAll(prefix string, gaveUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how := f.log.OK
	if gaveUp {
		how = f.log.Forget
	}
	for who := range f.scopeOf {
		if strings.HasPrefix(who, prefix) {
			f.end(who, how)
		}
	}
}

func (f *faults) end(who string, how func(tp string)) {
	scope, held := f.scopeOf[who]
	if !held {
		return
	}
	delete(f.scopeOf, who)
	if f.waiting[scope]--; f.waiting[scope] == 0 {
		delete(f.waiting, scope)
		how(scope)
	}
}
