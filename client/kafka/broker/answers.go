package broker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"example.org/bridge/client/bus"
)

// Everywhere is the tp of a fault that concerns the whole cluster.
const Everywhere = "kafka"

// TPName names a partition as offsets do.
func TPName(topic string, partition int32) string { return topic + "/" + strconv.Itoa(int(partition)) }

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

// reach is how much of the cluster a fault concerns.
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
	kafkago.LeaderNotAvailable:    {Remedy: Reroute},
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

	kafkago.InvalidTopic:               {reach: oneTopic},
	kafkago.TopicAuthorizationFailed:   {Again, oneTopic, "grant WRITE and DESCRIBE on topic %s to the user of this connection"},
	kafkago.ClusterAuthorizationFailed: {Again, allTopics, "grant WRITE on topic %s, or IDEMPOTENT_WRITE on the cluster, to the user of this connection"},
	kafkago.SecurityDisabled:           {reach: allTopics},
	kafkago.UnsupportedSASLMechanism:   {Again, allTopics, "the broker does not offer this SASL mechanism"},
	kafkago.UnsupportedCompressionType: {Again, oneTopic, "topic %s does not take this compression, choose another"},
	kafkago.InvalidTimestamp:           {Again, oneTopic, "topic %s refuses the time of the records, compare the clocks of this host and the broker"},
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
		return verdict{Remedy: Inspect}
	}
	return verdict{Remedy: Reroute, reach: allTopics}
}

func RemedyFor(err error) Remedy { return verdictOf(err).Remedy }

// Scope names how much of the cluster a fault concerns: everywhere, a topic, or one partition of
// it.
func Scope(topic string, partition int32, err error) string {
	switch verdictOf(err).reach {
	case allTopics:
		return Everywhere
	case oneTopic:
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
