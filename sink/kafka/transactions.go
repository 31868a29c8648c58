package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/failpoint"
	"bridge/sink"
)

// errAgain says that nothing of a batch is on the bus, and that it is to be tried again by and by:
// others go first.
var errAgain = errors.New("the batch has to wait")

// transactions publishes batches in transactions, one after the other (decision 20). A goroutine
// drains the queue while there is something in it.
type transactions struct {
	sink     *Sink
	producer *txnProducer
	interval time.Duration
	// stalledAfter is how long a partition may fail to answer, retriedFor how long it may when it
	// did so before.
	stalledAfter, retriedFor time.Duration
	// steps, when not nil, is told of each step of a transaction: for tests.
	steps func(failpoint.Point)

	mu    sync.Mutex
	queue []*entry
	busy  bool

	// What follows belongs to the draining goroutine.

	partitions map[*worker]*txnPartition
	// heldNext says that the next transaction is for a batch that had to wait.
	heldNext bool
	// again are the batches of a transaction that another one had aborted by a refused record: the
	// next transaction takes in nothing else, or each refused record would abort it once more.
	again []*entry
}

// entry is a batch in the queue.
type entry struct {
	call     *call
	portions []*portion
	done     chan struct{}
	err      error
}

func newTransactions(s *Sink, opts *Options) *transactions {
	return &transactions{
		sink: s, producer: newTxnProducer(s.cluster, s.faults, opts), interval: opts.TransactionInterval,
		stalledAfter: opts.StalledAfter, retriedFor: opts.StalledAfter / 5, partitions: make(map[*worker]*txnPartition),
	}
}

// publish is Sink.Publish. The error is nil when all of the batch was committed, or some of it
// rejected and nothing stored.
func (t *transactions) publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	nothing := sink.Outcome{Status: make([]sink.Status, len(batch))}
	c := newCall(batch)
	rejected, pending := t.sink.screen(c)
	if len(rejected) > 0 || len(batch) == 0 {
		return c.outcome(rejected), context.Cause(ctx)
	}
	var pause backoff.Backoff
	for {
		if err := context.Cause(ctx); err != nil {
			return nothing, err
		}
		portions, err := t.sink.assign(ctx, c, pending)
		if err != nil {
			return nothing, err
		}
		e := &entry{call: c, portions: portions, done: make(chan struct{})}
		t.enter(e)
		select {
		case <-e.done:
		case <-ctx.Done():
			c.leave()
			t.dropFaults(e)
			return nothing, context.Cause(ctx)
		}
		if e.err == nil {
			return c.outcome(e.rejections()), nil
		}
		if !errors.Is(e.err, errAgain) {
			return nothing, e.err
		}
		c.tps = nil
		if err := pause.Wait(ctx); err != nil {
			t.dropFaults(e)
			return nothing, err
		}
	}
}

// dropFaults forgets what holds a batch up that nobody waits for any more.
func (t *transactions) dropFaults(e *entry) {
	for _, r := range e.portions {
		t.sink.faults.drop(r.worker.tp)
	}
}

// fence is Sink.Fence.
func (t *transactions) fence(ctx context.Context) error {
	release, err := t.producer.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return t.producer.ready(ctx)
}

// enter adds a batch to the queue and sees to it that somebody drains it.
func (t *transactions) enter(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, e)
	if t.busy || !t.sink.begin() {
		// Of a closed sink Publish sees for itself that it is closed.
		return
	}
	t.busy = true
	go t.drain()
}

// giveBack puts batches in front of the queue. The caller drains it.
func (t *transactions) giveBack(list []*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(list, t.queue...)
}

// dequeue returns what may be in one transaction: all batches but those with a partition that did
// not answer, or one of these.
func (t *transactions) dequeue(held bool) []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var free, waiting []*entry
	for _, e := range t.queue {
		if slices.ContainsFunc(e.portions, func(r *portion) bool { p := t.partitions[r.worker]; return p != nil && p.held }) {
			waiting = append(waiting, e)
		} else {
			free = append(free, e)
		}
	}
	if held && len(waiting) > 0 && (t.heldNext || len(free) == 0) {
		t.heldNext = false
		t.queue = append(waiting[1:], free...)
		return waiting[:1]
	}
	t.heldNext = true
	t.queue = waiting
	return free
}

// first returns the batches of the next transaction; nil when there are none, and nobody drains the
// queue any more.
func (t *transactions) first() []*entry {
	if len(t.again) > 0 {
		return t.again
	}
	if list := t.dequeue(true); len(list) > 0 && t.sink.life.Err() == nil {
		return list
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy = len(t.queue) > 0 && t.sink.life.Err() == nil; t.busy {
		return []*entry{}
	}
	return nil
}

func (t *transactions) drain() {
	defer t.sink.end()
	for list := t.first(); list != nil; list = t.first() {
		if len(list) == 0 {
			continue
		}
		release, err := t.producer.acquire(t.sink.life)
		if err != nil {
			// Publish sees for itself that the sink is closed.
			return
		}
		t.transact(t.sink.life, list)
		release()
	}
}

// transact puts batches into one transaction, with those that arrive in time. The turn is held.
func (t *transactions) transact(ctx context.Context, list []*entry) {
	alone := len(t.again) > 0
	t.again = nil
	if err := t.producer.ready(ctx); err != nil {
		for _, e := range list {
			e.finish(err)
		}
		return
	}
	x := &transaction{t: t, id: t.producer.id}
	for until := time.Now().Add(t.interval); ; {
		if err := x.send(ctx, list); err != nil {
			x.giveUp(ctx, err)
			return
		}
		if alone || !time.Now().Before(until) {
			break
		}
		if list = t.dequeue(false); len(list) == 0 {
			break
		}
	}
	x.commit(ctx)
}

// step passes a point of a transaction.
func (t *transactions) step(at failpoint.Point) {
	failpoint.Pass(at)
	if t.steps != nil {
		t.steps(at)
	}
}

// partition returns what is kept of a partition.
func (t *transactions) partition(w *worker) *txnPartition {
	p := t.partitions[w]
	if p == nil {
		p = newTxnPartition(w)
		t.partitions[w] = p
	}
	return p
}

// finish ends the wait for a batch.
func (e *entry) finish(err error) {
	e.err = err
	close(e.done)
}

// reset forgets what was stored of a batch in a transaction that was aborted.
func (e *entry) reset() {
	e.call.present(func() {
		for i, status := range e.call.status {
			if status == sink.Acked {
				e.call.status[i] = sink.Pending
			}
		}
		clear(e.call.at)
	})
	for _, r := range e.portions {
		r.next = 0
	}
}

// rejections returns what was refused of the batch.
func (e *entry) rejections() (list []sink.Rejection) {
	for _, r := range e.portions {
		if r.rejection != nil {
			list = append(list, *r.rejection)
		}
	}
	return list
}
// torn reports whether some of the batch was sent and some was not, because its caller has left.
func (e *entry) torn() bool {
	cut, sent := false, false
	for _, r := range e.portions {
		cut, sent = cut || r.cut, sent || len(r.index) > 0
	}
	return cut && sent
}

