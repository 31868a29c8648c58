package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

// errAgain says that nothing of a batch is on the bus, and that it is to be tried again by and by:
// others go first.
var errAgain = errors.New("the batch has to wait")

const (
	// mostBytes and leastBytes bound what a transaction takes in, but for its first batch.
	// firstBytes is what the first ones take.
	mostBytes  = 64 << 20
	firstBytes = 4 << 20
	leastBytes = 256 << 10
	// abortWithin is how long Close waits for brokers.
	abortWithin = 2 * time.Second
)

// transactions publishes batches in transactions, one after the other (decision 20). A goroutine
// drains the queue while there is something in it.
type transactions struct {
	sink     *Sink
	producer *txnProducer
	interval time.Duration
	// life ends when Close begins, before that of the sink.
	life   context.Context
	cancel context.CancelCauseFunc
	// slowAfter is how long a transaction takes that is too large for these brokers.
	slowAfter time.Duration
	// stalledAfter is how long a partition may fail to answer, retriedFor how long it may when it
	// did so before.
	stalledAfter, retriedFor time.Duration
	abortWithin              time.Duration
	// steps, when not nil, is told of each step of a transaction: for tests.
	steps func(step string)

	mu    sync.Mutex
	queue []*call
	busy  bool

	// What follows belongs to the draining goroutine.

	// room is how many bytes the next transaction takes in.
	room int
	// heldNext says that the next transaction is for a batch that had to wait.
	heldNext bool
	// again are the batches of a transaction that another one had aborted by a refused record: the
	// next transaction takes in nothing else, or each refused record would abort it once more.
	again []*call
}

func newTransactions(s *Sink, opts *Options) *transactions {
	t := &transactions{
		sink: s, producer: newTxnProducer(s.cluster, s.faults, opts), interval: opts.TransactionInterval, slowAfter: opts.TransactionTimeout / 8,
		stalledAfter: opts.StalledAfter, retriedFor: opts.StalledAfter / 5, abortWithin: abortWithin, room: firstBytes,
	}
	t.life, t.cancel = context.WithCancelCause(s.life)
	return t
}

// close ends the transaction under way, and aborts it where the brokers answer in time: left open
// it would hold up all consumers until its time limit.
func (t *transactions) close() {
	t.cancel(sink.ErrClosed)
	ctx, cancel := context.WithTimeoutCause(t.sink.life, t.abortWithin, broker.ErrNoAnswer)
	defer cancel()
	release, err := backoff.Acquire(ctx, t.producer.turn)
	if err != nil {
		return
	}
	defer release()
	if t.producer.claimed {
		// What cannot be aborted now ends by its time limit, or by the next start.
		_ = t.producer.ready(ctx)
	}
}

// The error is nil when all of the batch was committed, or some of it rejected and nothing stored.
func (t *transactions) publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	nothing := sink.Outcome{Status: make([]sink.Status, len(batch))}
	c := newCall(batch)
	const headers = 300
	for i := range batch {
		c.bytes += len(batch[i].Key) + len(batch[i].Value) + headers
	}
	rejected, pending := t.sink.screen(c)
	if len(rejected) > 0 || len(batch) == 0 {
		return c.outcome(rejected), context.Cause(ctx)
	}
	var pause backoff.Backoff
	for {
		if err := context.Cause(ctx); err != nil {
			return nothing, err
		}
		c.tps, c.portions = nil, nil
		portions, err := t.sink.assign(ctx, c, pending)
		if err != nil {
			return nothing, err
		}
		c.portions, c.done = portions, make(chan struct{})
		t.enter(c)
		select {
		case <-c.done:
		case <-ctx.Done():
			c.leave()
			t.dropFaults(c)
			return nothing, context.Cause(ctx)
		}
		if c.err == nil {
			return c.outcome(nil), nil
		}
		if !errors.Is(c.err, errAgain) {
			return nothing, c.err
		}
		if err := pause.Wait(ctx); err != nil {
			t.dropFaults(c)
			return nothing, err
		}
	}
}

func (t *transactions) dropFaults(c *call) {
	for _, r := range c.portions {
		t.sink.faults.Drop(r.worker.tp)
	}
}

func (t *transactions) fence(ctx context.Context) error {
	release, err := backoff.Acquire(ctx, t.producer.turn)
	if err != nil {
		return err
	}
	defer release()
	return t.producer.ready(ctx)
}

func (t *transactions) enter(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, c)
	if t.busy || !t.sink.begin() {
		// Of a closed sink Publish sees for itself that it is closed.
		return
	}
	t.busy = true
	go t.drain()
}

// prune leaves out the batches whose callers have left: they would abort the transaction. The
// caller has locked mu.
func (t *transactions) prune() {
	t.queue = slices.DeleteFunc(t.queue, func(c *call) bool { return !c.present(func() {}) })
}

// dequeue returns what may be in one transaction, up to so many bytes and one batch more: batches
// without a partition that did not answer, or with held one that has such a partition. The caller
// has locked mu.
func (t *transactions) dequeue(held bool, room int) []*call {
	var free, waiting, later []*call
	for _, c := range t.queue {
		switch {
		case c.any(func(r *portion) bool { return r.worker.held }):
			waiting = append(waiting, c)
		case room <= 0:
			later = append(later, c)
		default:
			free = append(free, c)
			room -= c.bytes
		}
	}
	if held && len(waiting) > 0 && (t.heldNext || len(free) == 0) {
		t.heldNext = false
		t.queue = slices.Concat(waiting[1:], free, later)
		return waiting[:1]
	}
	t.heldNext = true
	t.queue = append(waiting, later...)
	return free
}

// next returns nil when there are no batches, and nobody drains the queue any more.
func (t *transactions) next() []*call {
	if len(t.again) > 0 {
		return t.again
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune()
	if len(t.queue) == 0 || t.life.Err() != nil {
		t.busy = false
		return nil
	}
	return t.dequeue(true, t.room)
}

func (t *transactions) drain() {
	defer t.sink.drains.Done()
	for list := t.next(); list != nil; list = t.next() {
		release, err := backoff.Acquire(t.life, t.producer.turn)
		if err != nil {
			// Publish sees for itself that the sink is closed.
			return
		}
		begun := time.Now()
		t.transact(t.life, list)
		t.pace(time.Since(begun))
		release()
	}
}

// pace has the next transaction take in less when one took long, so that all end well before their
// time limit, and else more.
func (t *transactions) pace(took time.Duration) {
	if took > t.slowAfter {
		t.room = max(t.room/2, leastBytes)
		return
	}
	t.room = min(t.room*2, mostBytes)
}

// transact puts batches into one transaction, with those that arrive in time. The turn is held.
func (t *transactions) transact(ctx context.Context, list []*call) {
	alone := len(t.again) > 0
	t.again = nil
	if err := t.producer.ready(ctx); err != nil {
		for _, c := range list {
			c.end(err)
		}
		return
	}
	x := &transaction{t: t, id: t.producer.id}
	for until, room := time.Now().Add(t.interval), t.room; ; {
		for _, c := range list {
			room -= c.bytes
		}
		if err := x.send(ctx, list); err != nil {
			x.giveUp(ctx, err)
			return
		}
		if alone || !time.Now().Before(until) {
			break
		}
		t.mu.Lock()
		t.prune()
		list = t.dequeue(false, room)
		t.mu.Unlock()
		if len(list) == 0 {
			break
		}
	}
	x.commit(ctx)
}

func (t *transactions) step(at string) {
	if t.steps != nil {
		t.steps(at)
	}
}
