package kafka

import (
	"context"
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	findings "bridge/internal/inspect"
	"bridge/internal/option"
)

// inspectTransactions looks at what exactly-once needs, where it is asked for. It changes nothing:
// the right to write shows by an initialisation with a time limit that no broker takes.
func (s *Sink) inspectTransactions(ctx context.Context, r *findings.Report) {
	if s.transactions == nil {
		return
	}
	c := s.transactions.producer.coordinator
	_, _, described := c.describe(ctx)
	_, _, initialised := c.initialise(ctx, anyProducer, 0)
	subject := "transactional id " + c.id
	grant := fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation Write --operation Describe --transactional-id %s",
		firstOf(s.cluster.addr.String()), s.user(), c.id)
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
		r.Add(findings.Unsafe, findings.NoTransactions, subject, "cannot be used: "+s.transactions.producer.explain(initialised).Error()).
			Says("see to the topic __transaction_state and its replicas").
			Types("kafka-topics.sh --bootstrap-server %s --describe --topic __transaction_state", firstOf(s.cluster.addr.String()))
	default:
		r.Summary += "; exactly-once as " + c.id
	}
}
