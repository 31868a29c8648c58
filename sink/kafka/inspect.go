package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	// inspect is a remedy of this package.
	"example.org/bridge/client/kafka/broker"
	findings "example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

var _ sink.Inspector = (*Sink)(nil)

const (
	// inspectWithin bounds the wait for a broker.
	inspectWithin = 8 * time.Second
	// smallLimit is a limit of messages below which ordinary rows may not fit; the brokers' default
	// lies just above it.
	smallLimit = 1 << 20
	// Operations in answers about authorization, by org.apache.kafka.common.acl.AclOperation.
	operationRead  = 3
	operationWrite = 4
	// operationsUnknown stands for operations that a broker does not tell (Integer.MIN_VALUE).
	operationsUnknown = -1 << 31
)

// Inspect looks at the cluster and at the topics of [Options.Topics] as [sink.Inspector] says. The
// limits of a topic show only to a login with DESCRIBE_CONFIGS; without it they are passed over.
func (s *Sink) Inspect(ctx context.Context) findings.Report {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectWithin, fmt.Errorf("no broker answers within %v", inspectWithin))
	defer cancel()
	r := findings.Report{Summary: "Kafka at " + s.cluster.Addr.String()}
	found, _, err := s.cluster.Metadata(ctx, s.options.Topics)
	if err != nil {
		s.unreached(&r, err)
		return r
	}
	// Brokers name topics in no order.
	slices.SortFunc(found.Topics, func(a, b kmsg.MetadataResponseTopic) int {
		return strings.Compare(broker.NameOf(&a), broker.NameOf(&b))
	})
	var usable, known []string
	for i := range found.Topics {
		topic := &found.Topics[i]
		if s.inspectTopic(&r, topic) {
			usable = append(usable, broker.NameOf(topic))
			known = append(known, fmt.Sprintf("%s has %s", broker.NameOf(topic), partitions(len(topic.Partitions))))
		}
	}
	const most = 4
	if more := len(known) - most; more > 0 {
		known = append(known[:most-1], fmt.Sprintf("%s and %d more", known[most-1], more))
	}
	if len(known) > 0 {
		r.Summary += ": " + strings.Join(known, ", ")
	}
	s.inspectBrokers(ctx, &r, found)
	s.inspectConfigs(ctx, &r, usable)
	s.inspectTransactions(ctx, &r)
	return r
}

// CreateTable returns the command that makes a topic which holds the last message of each key. Its
// segments are small: what is replaced is read until the segment is compacted.
func CreateTable(server, topic string) string {
	return fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions 1 --config cleanup.policy=compact --config segment.bytes=33554432", server, topic)
}

func partitions(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return strconv.Itoa(n) + " partitions"
}

func (s *Sink) unreached(r *findings.Report, err error) {
	var code kafkago.Error
	if errors.As(err, &code) && slices.Contains([]kafkago.Error{kafkago.SASLAuthenticationFailed, kafkago.UnsupportedSASLMechanism, kafkago.IllegalSASLState}, code) {
		found := r.Add(findings.Unsafe, findings.SinkLogin, "login", "is refused").Because(s.cluster.Explain("", err))
		switch login := s.options.SASL; {
		case login != nil && login.Custom != nil:
			found.Says("correct %s or the credentials that the AWS SDK finds, or let an administrator allow kafka-cluster:Connect; whose they are says", option.KafkaSASLMechanism).
				Types("aws sts get-caller-identity")
		case login != nil && login.Token != nil:
			found.Says("replace the token in the file of %s, or correct %s; what it claims says", option.KafkaSASLTokenFile, option.KafkaSASLMechanism).
				Types(`cut -d. -f2 <token file> | tr _- /+ | base64 -d`)
		default:
			found.Says("correct %s, %s or %s, or let an administrator set the password (SCRAM)", option.KafkaSASLUsername, option.KafkaSASLPassword, option.KafkaSASLMechanism).
				Types("kafka-configs.sh --bootstrap-server %s --alter --entity-type users --entity-name <user> --add-config 'SCRAM-SHA-512=[password=<password>]'", s.server())
		}
		return
	}
	r.Add(findings.Unsafe, findings.SinkUnreachable, "brokers", "cannot be asked").Because(err).
		Says("see to the hosts in %s, to %s and %s, which must be what the listener wants, and to firewalls; to try it by hand", option.SinkURL, option.KafkaTLS, option.KafkaSASLMechanism).
		Types("kafka-broker-api-versions.sh --bootstrap-server %s", s.server())
}

func (s *Sink) server() string {
	first, _, _ := strings.Cut(s.cluster.Addr.String(), ",")
	return first
}

func (s *Sink) inspectTopic(r *findings.Report, t *kmsg.MetadataResponseTopic) bool {
	name, server := broker.NameOf(t), s.server()
	unsafe := func(code findings.Code, text, remedy, command string, args ...any) {
		r.Add(findings.Unsafe, code, "topic "+name, text).Says("%s", remedy).Types(command, args...)
	}
	granted := func(code findings.Code, text string) {
		unsafe(code, text, "let an administrator run",
			"kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation Read --operation Write --operation Describe --topic %s", server, s.user(), name)
	}
	leader := func(text, remedy string) {
		unsafe(findings.TopicLeader, text, remedy, "kafka-topics.sh --bootstrap-server %s --describe --topic %s", server, name)
	}
	const missing = "does not exist, or this login may not DESCRIBE it"
	err := broker.Answer(t.ErrorCode, "")
	switch {
	case errors.Is(err, kafkago.UnknownTopicOrPartition) && s.options.Table:
		unsafe(findings.NoTopic, missing, "create it", "%s", CreateTable(server, name))
	case errors.Is(err, kafkago.UnknownTopicOrPartition):
		unsafe(findings.NoTopic, missing, "bridge creates no topics: create it, with as many partitions as consumers are to share the work",
			"kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions 3", server, name)
	case errors.Is(err, kafkago.TopicAuthorizationFailed):
		granted(findings.TopicGrant, "may not be described by this login")
	case err != nil:
		leader("cannot be used: "+err.Error(), "see to the brokers")
	}
	if err != nil {
		return false
	}
	// One command grants both.
	switch may := t.AuthorizedOperations; {
	case may == operationsUnknown, may == 0:
	case may&(1<<operationWrite) == 0:
		granted(findings.TopicGrant, "may not be written to by this login")
	case may&(1<<operationRead) == 0:
		granted(findings.TopicUnreadable, "may not be read by this login: bridge reads there what its checkpoint lacks")
	}
	if n := len(t.Partitions); s.options.Table && n > 1 {
		unsafe(findings.TopicPartitions, "has "+partitions(n)+": one holds the last message of each key in order", "make it again with one", "%s", CreateTable(server, name))
	}
	without := 0
	for _, p := range t.Partitions {
		if p.Leader < 0 {
			without++
		}
	}
	if without > 0 {
		leader(fmt.Sprintf("has no leader for %d of %s", without, partitions(len(t.Partitions))), "see to the brokers that keep its replicas")
	}
	return true
}

func (s *Sink) user() string {
	if s.options.SASL != nil && s.options.SASL.Username != "" {
		return s.options.SASL.Username
	}
	return "<user>"
}

func (s *Sink) inspectConfigs(ctx context.Context, r *findings.Report, topics []string) {
	const size = "max.message.bytes"
	if len(topics) == 0 {
		return
	}
	all, _, err := s.configs(ctx, topics, size, cleanupPolicy)
	if err != nil {
		r.Summary += "; their limits do not show"
		return
	}
	hidden := 0
	for _, topic := range topics {
		config, subject := all[topic], "topic "+topic
		if config.err != nil {
			hidden++
			if slices.Contains(s.options.Asked, topic) {
				r.Add(findings.Note, findings.TopicHidden, subject, "does not show its cleanup.policy to this login: deleted events are published without tombstones").
					Says("set %s to on or off, or let an administrator run", option.KafkaTombstones).
					Types("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation DescribeConfigs --topic %s", s.server(), s.user(), topic)
			}
			continue
		}
		alter := fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config ", s.server(), topic)
		if limit, err := strconv.Atoi(config.values[size]); err == nil && limit < smallLimit {
			r.Add(findings.Note, findings.TopicMessageSize, subject, fmt.Sprintf("takes messages of at most %d bytes (max.message.bytes)", limit)).
				Says("a larger row goes to %s or stops its stream; for a higher limit", option.DeadLetter).Types("%s%s=1048588", alter, size)
		}
		policy, why := config.values[cleanupPolicy], s.options.Uncompactable[topic]
		switch {
		case policy == "", s.options.Table && policy == compact, !s.options.Table && !strings.Contains(policy, compact):
		case s.options.Table:
			r.Add(findings.Unsafe, findings.TopicUncompacted, subject, fmt.Sprintf("is not compacted (cleanup.policy=%s): what it holds expires", policy)).
				Says("have it compacted").Types("%scleanup.policy=compact", alter)
		case why != "":
			r.Add(findings.Warning, findings.TopicCompacted, subject, "is compacted, which loses events to late consumers, because "+why).
				Says("to keep all").Types("%scleanup.policy=delete", alter)
		default:
			r.Add(findings.Note, findings.TopicCompacted, subject, "is compacted: in the end it holds only the newest event of each entity").
				Says("nothing where that is meant; to keep all").Types("%scleanup.policy=delete", alter)
		}
	}
	if hidden > 0 {
		r.Summary += "; their limits show only with DESCRIBE_CONFIGS"
	}
}

// inspectBrokers connects to each broker that leads a partition of topics, at the address that the
// cluster advertises for it: the brokers that the configuration names only tell of the others.
func (s *Sink) inspectBrokers(ctx context.Context, r *findings.Report, found *kmsg.MetadataResponse) {
	ctx, cancel := context.WithTimeoutCause(ctx, broker.ConnectWithin, fmt.Errorf("no answer within %v", broker.ConnectWithin))
	defer cancel()
	var leads []int32
	for _, topic := range found.Topics {
		for _, p := range topic.Partitions {
			leads = append(leads, p.Leader)
		}
	}
	slices.Sort(leads)
	leads = slices.Compact(leads)
	errs := make([]error, len(leads))
	var asking sync.WaitGroup
	for i, id := range leads {
		asking.Go(func() {
			_, _, errs[i] = broker.Send[kmsg.Response](ctx, s.cluster, broker.ToBroker{Request: s.cluster.Request(new(kmsg.ApiVersionsRequest)), Find: broker.BrokerOf(id)})
		})
	}
	asking.Wait()
	for _, b := range found.Brokers {
		i, asked := slices.BinarySearch(leads, b.NodeID)
		if !asked || errs[i] == nil {
			continue
		}
		err := errs[i]
		if stray, ok := errors.AsType[*broker.AdvertisedError](err); ok {
			err = stray.Err
		}
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		r.Add(findings.Unsafe, findings.SinkUnreachable, "broker "+address, "leads partitions and does not answer at this address, which the cluster advertises (advertised.listeners)").
			Because(err).
			Says("have the broker advertise an address that this host resolves and reaches, or let this host reach it; to try it by hand").
			Types("kafka-broker-api-versions.sh --bootstrap-server %s", address)
	}
}

// inspectTransactions looks at what exactly-once needs, where it is asked for. It changes nothing:
// the right to write shows by an initialisation with a time limit that no broker takes.
func (s *Sink) inspectTransactions(ctx context.Context, r *findings.Report) {
	if s.transactions == nil {
		return
	}
	p := s.transactions.producer
	_, _, described := p.describe(ctx)
	_, _, initialised := p.initialise(ctx, anyProducer, 0)
	subject := "transactional id " + p.transactionalID
	grant := fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation Write --operation Describe --transactional-id %s",
		s.server(), s.user(), p.transactionalID)
	switch {
	case errors.Is(described, errNoDescribe):
		r.Add(findings.Unsafe, findings.NoTransactions, "brokers", described.Error()).
			Says("update the brokers to Kafka 3.0 or later, or set %s to at-least-once", option.Delivery)
	case errors.Is(initialised, kafkago.TransactionalIDAuthorizationFailed):
		r.Add(findings.Unsafe, findings.TransactionGrant, subject, "may not be used by this login (WRITE)").
			Says("let an administrator run").Types("%s", grant)
	case errors.Is(described, kafkago.TransactionalIDAuthorizationFailed):
		r.Add(findings.Unsafe, findings.TransactionGrant, subject, "may not be described by this login (DESCRIBE)").
			Says("let an administrator run").Types("%s", grant)
	case initialised != nil && !errors.Is(initialised, kafkago.InvalidTransactionTimeout):
		r.Add(findings.Unsafe, findings.NoTransactions, subject, "cannot be used: "+p.explain(initialised).Error()).
			Says("see to the topic __transaction_state and its replicas").
			Types("kafka-topics.sh --bootstrap-server %s --describe --topic __transaction_state", s.server())
	default:
		r.Summary += "; exactly-once as " + p.transactionalID
	}
}
