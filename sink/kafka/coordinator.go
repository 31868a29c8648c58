package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinator asks the coordinator of one transactional id. Each call is one request; kafka-go
// finds out before which broker that is.
type coordinator struct {
	cluster *cluster
	id      string
	// signature is the time limit of our transactions in ms, by which this process knows whether it
	// has initialised last. It is even: an odd one says that the takeover is not confirmed.
	signature int32
}

// errNoDescribe says that the brokers are too old.
var errNoDescribe = errors.New("the brokers do not tell who publishes under a transactional id (DescribeTransactions, Kafka 3.0), which exactly-once needs")

// claimIs is set in the time limit of a process that claims the transactional id.
const claimIs = 1

// anyProducer initialises, and fences all former producers.
var anyProducer = identity{producer: -1, epoch: -1}

// initialise takes the next epoch behind that of a producer, and sets the time limit of its
// transactions, in ms.
func (c *coordinator) initialise(ctx context.Context, of identity, limit int32) (identity, int, error) {
	res, generation, err := c.cluster.roundTrip(ctx, &initproducerid.Request{
		TransactionalID: c.id, TransactionTimeoutMs: limit, ProducerID: of.producer, ProducerEpoch: of.epoch,
	})
	if err != nil {
		return identity{}, generation, err
	}
	r := res.(*initproducerid.Response)
	return identity{producer: r.ProducerID, epoch: r.ProducerEpoch}, generation, answer(r.ErrorCode, "")
}

// transactionState says who has initialised last: the time limit of its transactions, in ms, and
// its epoch.
type transactionState struct {
	timeoutMs int32
	producer  int64
	epoch     int16
}

// describe asks for the state of the transactional id.
func (c *coordinator) describe(ctx context.Context) (*transactionState, int, error) {
	req := &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{c.id}}
	res, generation, err := ask[*kmsg.DescribeTransactionsResponse](ctx, c.cluster, toTransaction{c.cluster.request(req), c.id})
	if errors.Is(err, errTooOld) {
		err = errNoDescribe
	}
	if err != nil {
		return nil, generation, err
	}
	if len(res.TransactionStates) != 1 || res.TransactionStates[0].TransactionalID != c.id {
		return nil, generation, fmt.Errorf("the broker describes %d transactional ids, asked was for %q", len(res.TransactionStates), c.id)
	}
	s := &res.TransactionStates[0]
	return &transactionState{s.TimeoutMillis, s.ProducerID, s.ProducerEpoch}, generation, answer(s.ErrorCode, "")
}

// operationNotAttempted is the answer about a partition that was not looked at because of another
// one. kafka-go has no name for it.
const operationNotAttempted kafkago.Error = 55

// topicError is the answer about one topic of a transaction.
type topicError struct {
	topic string
	error
}

func (e *topicError) Unwrap() error { return e.error }

// add adds partitions to the transaction of a producer, and begins one with the first of them. None
// is added where an error is answered.
func (c *coordinator) add(ctx context.Context, p identity, partitions []*worker) (int, error) {
	req := &addpartitionstotxn.Request{TransactionalID: c.id, ProducerID: p.producer, ProducerEpoch: p.epoch}
	for _, w := range partitions {
		i := slices.IndexFunc(req.Topics, func(t addpartitionstotxn.RequestTopic) bool { return t.Name == w.topic })
		if i < 0 {
			i = len(req.Topics)
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: w.topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, w.partition)
	}
	res, generation, err := c.cluster.roundTrip(ctx, req)
	if err != nil {
		return generation, err
	}
	var fault error
	added := 0
	for _, topic := range res.(*addpartitionstotxn.Response).Results {
		for _, r := range topic.Results {
			code := kafkago.Error(r.ErrorCode)
			switch {
			case code == 0:
				added++
			case code == kafkago.UnknownTopicOrPartition || code == kafkago.TopicAuthorizationFailed || code == kafkago.InvalidTopic:
				return generation, &topicError{topic.Name, answer(r.ErrorCode, "")}
			case fault == nil || code != operationNotAttempted:
				fault = answer(r.ErrorCode, "")
			}
		}
	}
	if fault == nil && added < len(partitions) {
		fault = fmt.Errorf("the coordinator answers for %d of %d partitions", added, len(partitions))
	}
	return generation, fault
}

// end ends the transaction of a producer.
func (c *coordinator) end(ctx context.Context, p identity, commit bool) (int, error) {
	res, generation, err := c.cluster.roundTrip(ctx, &endtxn.Request{
		TransactionalID: c.id, ProducerID: p.producer, ProducerEpoch: p.epoch, Committed: commit,
	})
	if err != nil {
		return generation, err
	}
	return generation, answer(res.(*endtxn.Response).ErrorCode, "")
}
