package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

const (
	// transactionTimeout is after how long the coordinator aborts a transaction, at least;
	// signatures is how many ms more it may be.
	transactionTimeout = 60 * time.Second
	signatures         = 20_000
	// claimWithin is how long another process may take to confirm that it has taken over.
	claimWithin = 10 * time.Second
	// claimIs is set in the time limit of a process that claims the transactional id.
	claimIs = 1
	// concurrentAfter is how long a transaction may take to end until that is reported.
	concurrentAfter = 3 * time.Second
)

const aboutTransactions = "transactions"

// errClaimed says that another process has claimed the transactional id, and may be dead.
var errClaimed = errors.New("another process begins to publish")

// txnProducer is the one producer of a process that publishes in transactions. It takes over from
// former processes, and goes on behind a doubt unless another process has taken over (decision 20).
type txnProducer struct {
	cluster         *broker.Cluster
	faults          *faults
	transactionalID string
	// signature is the time limit of our transactions in ms, by which this process knows whether it
	// has initialised last. It is even: an odd one says that the takeover is not confirmed.
	signature int32
	// turn is held by the one who initialises or has a transaction open.
	turn chan struct{}

	// What follows belongs to the one who holds turn.

	id identity
	// claimed: this process has claimed the transactional id. fresh: id may begin a transaction.
	claimed, fresh bool
	// latest is what the coordinator has given this process last, with its claim too. mayFollow is
	// how far its epoch can have come since, by this process alone.
	latest    identity
	mayFollow int16
	// rival is a claim of another process that is not confirmed, met first at rivalSince. It may
	// take claimWithin.
	rival       transactionState
	rivalSince  time.Time
	claimWithin time.Duration
	// over is the error of a process that was superseded.
	over error
}

func newTxnProducer(c *broker.Cluster, f *faults, opts *Options) *txnProducer {
	signature := (opts.TransactionTimeout.Milliseconds() + 2 + rand.Int64N(signatures-2)) &^ claimIs
	return &txnProducer{
		cluster: c, faults: f, transactionalID: opts.TransactionalID, signature: int32(signature), turn: make(chan struct{}, 1),
		claimWithin: claimWithin,
	}
}

// ready sees to it that the next transaction can begin. The turn is held.
func (p *txnProducer) ready(ctx context.Context) error {
	if p.over != nil || p.fresh {
		return p.over
	}
	var id identity
	fenced := func(err error) bool { return errors.Is(err, sink.ErrFenced) }
	_, err := p.retry(ctx, fenced, func() (generation int, err error) {
		id, generation, err = p.next(ctx)
		return generation, err
	})
	switch {
	case err == nil:
		p.id, p.fresh = id, true
	case fenced(err):
		p.over = err
	}
	return err
}

// next takes an epoch that nobody else was given. A process takes over in two requests: it claims
// the transactional id without an epoch, which fences all others, and confirms that with the epoch
// that it was given. A request of a dead process that arrives late is a claim at most: the epoch
// refuses the other one (decision 20).
func (p *txnProducer) next(ctx context.Context) (identity, int, error) {
	if !p.claimed {
		id, generation, err := p.initialise(ctx, anyProducer, p.signature|claimIs)
		if err != nil {
			return identity{}, generation, err
		}
		p.claimed, p.latest, p.mayFollow = true, id, 0
	}
	state, generation, err := p.describe(ctx)
	switch {
	case errors.Is(err, kafkago.TransactionalIDNotFound), err == nil && state.epoch < 0:
		// It has expired: nobody else has initialised.
		p.claimed = false
		return identity{}, generation, cmp.Or(err, error(kafkago.TransactionalIDNotFound))
	case err != nil:
		return identity{}, generation, err
	case p.isOurs(state):
		// Between both requests another process may have initialised: then this one is refused.
		id, generation, err := p.initialise(ctx, identity{producer: state.producer, epoch: state.epoch}, p.signature)
		if err == nil {
			// A transaction that is aborted takes one epoch.
			p.latest, p.mayFollow = id, 1
		} else if p.mayFollow < math.MaxInt16 && !slices.ContainsFunc(notInitialised, func(code kafkago.Error) bool { return errors.Is(err, code) }) {
			p.mayFollow++
		}
		return id, generation, err
	case state.timeoutMs&claimIs == 0:
		return identity{}, generation, fmt.Errorf("%w: transactional id %s was initialised by another process: "+
			"where that publishes other streams, give each bridge a transactional id of its own", sink.ErrFenced, p.transactionalID)
	}
	// Another process has claimed it. One that does not confirm that is dead: this process claims
	// it again.
	if p.rival != *state {
		p.rival, p.rivalSince = *state, time.Now()
	}
	p.claimed = time.Since(p.rivalSince) < p.claimWithin
	return identity{}, generation, errClaimed
}

// notInitialised are the answers to an initialisation that was certainly not done. One of a
// coordinator that moves, or that cannot replicate, does not say so.
var notInitialised = []kafkago.Error{
	kafkago.ProducerFenced, kafkago.InvalidProducerEpoch, kafkago.ConcurrentTransactions, kafkago.TransactionalIDAuthorizationFailed,
	kafkago.InvalidTransactionTimeout,
}

// isOurs reports whether this process has initialised last. The signature alone does not say so: by
// chance another process may have the same one, but hardly with an epoch that this one can have.
func (p *txnProducer) isOurs(state *transactionState) bool {
	switch state.timeoutMs {
	case p.signature | claimIs:
		return state.producer == p.latest.producer && state.epoch == p.latest.epoch
	case p.signature:
		// A producer whose epochs are used up is followed by another one.
		return state.producer != p.latest.producer || state.epoch-p.latest.epoch <= p.mayFollow
	}
	return false
}

var errNoDescribe = errors.New("the brokers do not tell who publishes under a transactional id (DescribeTransactions, Kafka 3.0), which exactly-once needs")

// initialise takes the next epoch behind that of a producer, and sets the time limit of its
// transactions, in ms.
func (p *txnProducer) initialise(ctx context.Context, of identity, limit int32) (identity, int, error) {
	return initialise(ctx, p.cluster, &kmsg.InitProducerIDRequest{
		TransactionalID: &p.transactionalID, TransactionTimeoutMillis: limit, ProducerID: of.producer, ProducerEpoch: of.epoch,
	})
}

// transactionState says who has initialised last: the time limit of its transactions, in ms, and
// its epoch.
type transactionState struct {
	timeoutMs int32
	producer  int64
	epoch     int16
}

func (p *txnProducer) describe(ctx context.Context) (*transactionState, int, error) {
	req := &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{p.transactionalID}}
	res, generation, err := broker.Send[*kmsg.DescribeTransactionsResponse](ctx, p.cluster, broker.ToTransaction{Request: p.cluster.Request(req), ID: p.transactionalID})
	if errors.Is(err, broker.ErrTooOld) {
		err = errNoDescribe
	}
	if err != nil {
		return nil, generation, err
	}
	if len(res.TransactionStates) != 1 || res.TransactionStates[0].TransactionalID != p.transactionalID {
		return nil, generation, fmt.Errorf("the broker describes %d transactional ids, asked was for %q", len(res.TransactionStates), p.transactionalID)
	}
	s := &res.TransactionStates[0]
	return &transactionState{s.TimeoutMillis, s.ProducerID, s.ProducerEpoch}, generation, broker.Answer(s.ErrorCode, "")
}

// operationNotAttempted is the answer about a partition that was not looked at because of another
// one. kafka-go has no name for it.
const operationNotAttempted kafkago.Error = 55

type topicError struct {
	topic string
	error
}

func (e *topicError) Unwrap() error { return e.error }

// add adds partitions to the transaction of a producer, and begins one with the first of them. None
// is added where an error is answered.
func (p *txnProducer) add(ctx context.Context, of identity, partitions []*worker) (int, error) {
	req := &addpartitionstotxn.Request{TransactionalID: p.transactionalID, ProducerID: of.producer, ProducerEpoch: of.epoch}
	for _, w := range partitions {
		i := slices.IndexFunc(req.Topics, func(t addpartitionstotxn.RequestTopic) bool { return t.Name == w.topic })
		if i < 0 {
			i = len(req.Topics)
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: w.topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, w.partition)
	}
	res, generation, err := p.cluster.RoundTrip(ctx, req)
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
				return generation, &topicError{topic.Name, broker.Answer(r.ErrorCode, "")}
			case fault == nil || code != operationNotAttempted:
				fault = broker.Answer(r.ErrorCode, "")
			}
		}
	}
	if fault == nil && added < len(partitions) {
		fault = fmt.Errorf("the coordinator answers for %d of %d partitions", added, len(partitions))
	}
	return generation, fault
}

func (p *txnProducer) end(ctx context.Context, of identity, commit bool) (int, error) {
	res, generation, err := p.cluster.RoundTrip(ctx, &endtxn.Request{
		TransactionalID: p.transactionalID, ProducerID: of.producer, ProducerEpoch: of.epoch, Committed: commit,
	})
	if err != nil {
		return generation, err
	}
	return generation, broker.Answer(res.(*endtxn.Response).ErrorCode, "")
}

// retry calls do, which sends a request to the coordinator, until that succeeds. The error is a
// final one, or that of ctx. It reports whether a request had no answer: it may arrive late.
func (p *txnProducer) retry(ctx context.Context, final func(error) bool, do func() (generation int, err error)) (unanswered bool, err error) {
	var pause backoff.Backoff
	// While another transaction ends the answer is soon another one.
	brief := backoff.Backoff{First: 2 * time.Millisecond, Max: 10 * time.Millisecond}
	defer func() {
		if ctx.Err() != nil {
			p.faults.Drop(aboutTransactions)
			return
		}
		p.faults.OK(aboutTransactions)
	}()
	for began := time.Now(); ; {
		generation, err := do()
		var code kafkago.Error
		answered := errors.As(err, &code) || errors.Is(err, errClaimed)
		switch {
		case err == nil, final(err):
			return unanswered, err
		case ctx.Err() != nil:
			return unanswered, context.Cause(ctx)
		case !answered:
			unanswered = true
		case (code == kafkago.ConcurrentTransactions || lost(err)) && time.Since(began) < concurrentAfter:
			if err := brief.Wait(ctx); err != nil {
				return unanswered, err
			}
			continue
		}
		if !errors.Is(err, errClaimed) && broker.RemedyFor(err) == broker.Reroute {
			p.cluster.Renew(generation)
		}
		p.faults.Fail(aboutTransactions, broker.Everywhere, p.explain(err))
		if err := pause.Wait(ctx); err != nil {
			return unanswered, err
		}
	}
}

func (p *txnProducer) explain(err error) error {
	id := p.transactionalID
	switch {
	case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("grant WRITE and DESCRIBE on transactional id %s to the user of bridge: %w", id, err)
	case errors.Is(err, kafkago.InvalidTransactionTimeout):
		return fmt.Errorf("set transaction.max.timeout.ms of the brokers to %d or more: %w", p.signature, err)
	case errors.Is(err, kafkago.ConcurrentTransactions):
		return fmt.Errorf("the former transaction of %s is not through: each of its partitions needs a leader: %w", id, err)
	case errors.Is(err, kafkago.GroupCoordinatorNotAvailable), errors.Is(err, kafkago.GroupLoadInProgress), errors.Is(err, kafkago.NotCoordinatorForGroup):
		// kafka-go's texts are about groups.
		var code kafkago.Error
		errors.As(err, &code)
		return fmt.Errorf("the coordinator of transactional id %s cannot be asked yet (topic __transaction_state): error %d", id, int(code))
	}
	return fmt.Errorf("transactional id %s: %w", id, err)
}

// lost reports whether an answer says that a transaction is not that of the producer any more.
func lost(err error) bool { return broker.RemedyFor(err) == broker.Restart }
