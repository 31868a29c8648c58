package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
	"bridge/sink"
)

const (
	// transactionTimeout is after how long the coordinator aborts a transaction, at least;
	// signatures is how many ms more it may be.
	transactionTimeout = 60 * time.Second
	signatures         = 20_000
	// concurrentAfter is how long a transaction may take to end until that is reported.
	concurrentAfter = 3 * time.Second
)

// aboutTransactions names the producer in faults.
const aboutTransactions = "transactions"

// txnProducer is the one producer of a process that publishes in transactions. It takes over from
// former processes, and goes on behind a doubt unless another process has taken over (decision 20).
type txnProducer struct {
	coordinator *coordinator
	faults      *faults
	// turn is held by the one who initialises or has a transaction open.
	turn chan struct{}

	// What follows belongs to the one who holds turn.

	id identity
	// taken: this process has taken over. fresh: id may begin a transaction.
	taken, fresh bool
	// over is the error of a process that was superseded.
	over error
}

func newTxnProducer(c *cluster, f *faults, opts *Options) *txnProducer {
	signature := opts.TransactionTimeout.Milliseconds() + 1 + rand.Int64N(signatures)
	return &txnProducer{
		coordinator: &coordinator{cluster: c, id: opts.TransactionalID, signature: int32(signature)}, faults: f, turn: make(chan struct{}, 1),
	}
}

// acquire waits for the turn.
func (p *txnProducer) acquire(ctx context.Context) (release func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ready sees to it that the next transaction can begin. The turn is held.
func (p *txnProducer) ready(ctx context.Context) error {
	if p.over != nil || p.fresh {
		return p.over
	}
	t := p.tries(ctx)
	defer t.ended()
	for {
		id, generation, err := p.next(ctx)
		switch {
		case err == nil:
			p.id, p.taken, p.fresh = id, true, true
			return nil
		case errors.Is(err, sink.ErrFenced):
			p.over = err
			return err
		}
		if err := t.failed(generation, err); err != nil {
			return err
		}
	}
}

// next takes an epoch that nobody else was given.
func (p *txnProducer) next(ctx context.Context) (identity, int, error) {
	if !p.taken {
		return p.coordinator.initialise(ctx, anyProducer)
	}
	state, generation, err := p.coordinator.describe(ctx)
	switch {
	case errors.Is(err, kafkago.TransactionalIDNotFound):
		// It has expired: nobody else has initialised.
		return p.coordinator.initialise(ctx, anyProducer)
	case err != nil:
		return identity{}, generation, err
	case state.timeoutMs != p.coordinator.signature:
		return identity{}, generation, fmt.Errorf("%w: transactional id %s was initialised by another process: "+
			"where that publishes other streams, give each bridge a transactional id of its own", sink.ErrFenced, p.coordinator.id)
	case state.epoch < 0:
		return p.coordinator.initialise(ctx, anyProducer)
	}
	// Between both requests it may have been somebody else's: then this is refused.
	return p.coordinator.initialise(ctx, identity{producer: state.producer, epoch: state.epoch})
}

// doubtful has the next transaction begin with another epoch. The turn is held.
func (p *txnProducer) doubtful() { p.fresh = false }

// tries retries requests to the coordinator. It serves one goroutine.
type tries struct {
	ctx   context.Context
	p     *txnProducer
	pause backoff.Backoff
	// brief is between two requests while another transaction ends.
	brief backoff.Backoff
	began time.Time
	// unanswered counts requests without an answer.
	unanswered int
}

func (p *txnProducer) tries(ctx context.Context) *tries {
	return &tries{ctx: ctx, p: p, began: time.Now(), brief: backoff.Backoff{First: 2 * time.Millisecond, Max: 10 * time.Millisecond}}
}

// failed pauses behind a request that was not done, and returns an error once it is not to be tried
// again: that of ctx.
func (t *tries) failed(generation int, err error) error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	var code kafkago.Error
	answered := errors.As(err, &code)
	switch {
	case !answered:
		t.unanswered++
	case code == kafkago.ConcurrentTransactions || lost(err):
		if time.Since(t.began) < concurrentAfter {
			return t.brief.Wait(t.ctx)
		}
	}
	if remedyFor(err) == reroute {
		t.p.coordinator.cluster.renew(generation)
	}
	t.p.faults.fail(aboutTransactions, everywhere, t.p.explain(err))
	return t.pause.Wait(t.ctx)
}

// ended notes that nothing is tried any more.
func (t *tries) ended() {
	if t.ctx.Err() != nil {
		t.p.faults.drop(aboutTransactions)
		return
	}
	t.p.faults.ok(aboutTransactions)
}

// explain adds what an operator can do about a fault.
func (p *txnProducer) explain(err error) error {
	id := p.coordinator.id
	switch {
	case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("grant WRITE and DESCRIBE on transactional id %s to the user of bridge: %w", id, err)
	case errors.Is(err, kafkago.InvalidTransactionTimeout):
		return fmt.Errorf("set transaction.max.timeout.ms of the brokers to %d or more: %w", p.coordinator.signature, err)
	case errors.Is(err, kafkago.ConcurrentTransactions):
		return fmt.Errorf("the former transaction of %s is not through: each of its partitions needs a leader: %w", id, err)
	case errors.Is(err, kafkago.GroupCoordinatorNotAvailable), errors.Is(err, kafkago.GroupLoadInProgress), errors.Is(err, kafkago.NotCoordinatorForGroup):
		// kafka-go's texts are about groups.
		return fmt.Errorf("the coordinator of transactional id %s cannot be asked yet (topic __transaction_state): error %d", id, codeOf(err))
	}
	return fmt.Errorf("transactional id %s: %w", id, err)
}

func codeOf(err error) int {
	var code kafkago.Error
	errors.As(err, &code)
	return int(code)
}

// lost reports whether an answer says that a transaction is not that of the producer any more.
func lost(err error) bool {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafkago.ProducerFenced, kafkago.InvalidProducerEpoch, kafkago.InvalidTransactionState, kafkago.InvalidProducerIDMapping,
		kafkago.TransactionCoordinatorFenced, kafkago.OutOfOrderSequenceNumber, kafkago.UnknownProducerId:
		return true
	}
	return false
}
