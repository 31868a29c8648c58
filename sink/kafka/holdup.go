package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/sink"
)

// errHeldUp says why a leader hides what it has.
var errHeldUp = fmt.Errorf("%w: it ends by itself after the producer's transaction.timeout.ms, "+
	"or see to it with kafka-transactions.sh find-hanging", sink.ErrHeldUp)

// heldUp names the transaction that holds back what lies in a partition, as far as the brokers tell
// (KIP-664, Kafka 3.0), and how it is ended.
func (c *cluster) heldUp(ctx context.Context, topic string, partition int32) error {
	req := &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}}
	res, _, err := ask[*kmsg.DescribeProducersResponse](ctx, c, toBroker{c.request(req), leaderOf(topic, partition)})
	if err != nil {
		return errHeldUp
	}
	producer, from := int64(0), int64(-1)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			for _, active := range p.ActiveProducers {
				if at := active.CurrentTxnStartOffset; at >= 0 && (from < 0 || at < from) {
					producer, from = active.ProducerID, at
				}
			}
		}
	}
	if from < 0 {
		return errHeldUp
	}
	by := fmt.Sprintf("producer %d", producer)
	if id := c.transactionalID(ctx, producer); id != "" {
		by += fmt.Sprintf(" (transactional id %s)", id)
	}
	return fmt.Errorf("%w: it is of %s and begins at offset %d: kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d --start-offset %d",
		errHeldUp, by, from, firstOf(c.addr.String()), topic, partition, from)
}

// transactionalID asks all brokers for the transactional id of a producer, empty where none tells:
// it shows to those alone who may describe it.
func (c *cluster) transactionalID(ctx context.Context, producer int64) string {
	found, _, err := c.metadata(ctx, nil)
	if err != nil {
		return ""
	}
	var brokers []int32
	for _, b := range found.Brokers {
		brokers = append(brokers, b.NodeID)
	}
	answers, errs := askEach[*kmsg.ListTransactionsResponse](ctx, c, brokers, func() kmsg.Request {
		return &kmsg.ListTransactionsRequest{ProducerIDFilters: []int64{producer}}
	})
	for i, res := range answers {
		if errs[i] != nil {
			continue
		}
		for _, s := range res.TransactionStates {
			if s.ProducerID == producer {
				return s.TransactionalID
			}
		}
	}
	return ""
}
