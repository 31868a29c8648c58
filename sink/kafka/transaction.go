package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

const (
	// waveBytes bounds the records that are sent at once, but for the first batch.
	waveBytes = 16 << 20
	// verifiedWithin is how long leaders may answer NOT_ENOUGH_REPLICAS until that is reported: so
	// they answer while they ask the coordinator whether the transaction is open (KIP-890).
	verifiedWithin = time.Second
	// leastWait is how long leaders may take to answer a request at least.
	leastWait = 100 * time.Millisecond
	// patientEvery: so often a partition that is tried again may take as long as at first. It may
	// be slow, not dead.
	patientEvery = 8
)

// Why a transaction is given up, besides an answer that it is lost.
var (
	errRefused = errors.New("a record was refused")
	errStalled = errors.New("a partition did not answer")
	// errPartlySent: a caller has left before all of its batch was sent and stored, so the
	// transaction of all is aborted.
	errPartlySent = errors.New("nobody waits for the rest of a batch")
)

// transaction serves one goroutine.
type transaction struct {
	t  *transactions
	id identity
	// calls are the batches in it, partitions those that the coordinator has added.
	calls      []*call
	partitions []*worker
	// mayRepeat: a request to the coordinator had no answer at first, and may arrive once more.
	mayRepeat bool
	// open: records that were sent have no answer.
	open bool
}

// send returns when all were stored, or why the transaction cannot be committed.
func (x *transaction) send(ctx context.Context, list []*call) error {
	list, err := x.join(ctx, list)
	x.calls = append(x.calls, list...)
	if err != nil {
		return err
	}
	x.t.step("TransactionAdded")
	var partitions []*worker
	for _, c := range list {
		for _, r := range c.portions {
			w := r.worker
			if len(w.sending) == 0 {
				partitions = append(partitions, w)
			}
			if w.incarnation != r.incarnation {
				w.incarnation, w.next, w.ended = r.incarnation, 0, false
			}
			w.sending = append(w.sending, r)
		}
	}
	defer func() {
		for _, w := range partitions {
			w.sending = nil
		}
	}()
	for {
		batches, limit := x.fill(partitions)
		if len(batches) == 0 {
			x.t.step("TransactionSent")
			if slices.ContainsFunc(list, (*call).partlySent) {
				return errPartlySent
			}
			return nil
		}
		if err := x.sendAll(ctx, batches, limit); err != nil {
			return err
		}
	}
}

// join adds the partitions of batches that are not in the transaction yet, and returns the batches
// that have joined: those whose topic is missing or not granted wait.
func (x *transaction) join(ctx context.Context, list []*call) ([]*call, error) {
	for {
		var more []*worker
		for _, c := range list {
			for _, r := range c.portions {
				if w := r.worker; !slices.Contains(x.partitions, w) && !slices.Contains(more, w) {
					w.failure = nil
					more = append(more, w)
				}
			}
		}
		if len(more) == 0 {
			return list, nil
		}
		err := x.request(ctx, func() (int, error) { return x.t.producer.add(ctx, x.id, more) })
		var topic *topicError
		switch {
		case err == nil:
			x.partitions = append(x.partitions, more...)
			return list, nil
		case errors.As(err, &topic):
			x.t.sink.believe(topic.topic, 0)
			list = slices.DeleteFunc(list, func(c *call) bool {
				i := slices.IndexFunc(c.portions, func(r *portion) bool { return r.worker.topic == topic.topic })
				if i >= 0 {
					c.portions[i].worker.fault(topic)
					c.end(errAgain)
				}
				return i >= 0
			})
		default:
			return list, err
		}
	}
}

// request sends a request to the coordinator until that does it, finds that the transaction is
// lost, or that a topic cannot be in it.
func (x *transaction) request(ctx context.Context, do func() (generation int, err error)) error {
	final := func(err error) bool {
		var topic *topicError
		return lost(err) || errors.As(err, &topic)
	}
	unanswered, err := x.t.producer.retry(ctx, final, do)
	x.mayRepeat = x.mayRepeat || unanswered
	return err
}

// The error is that of ctx, or says that the outcome is unknown.
func (x *transaction) end(ctx context.Context, commit bool) error {
	return x.request(ctx, func() (int, error) { return x.t.producer.end(ctx, x.id, commit) })
}

func (x *transaction) commit(ctx context.Context) {
	if len(x.partitions) > 0 {
		x.t.step("TransactionEnds")
		if err := x.end(ctx, true); err != nil {
			x.unknown(err)
			return
		}
		x.t.step("TransactionEnded")
	}
	if x.mayRepeat {
		// A late copy of a request is of the former epoch then.
		x.t.producer.fresh = false
	}
	for _, w := range x.partitions {
		w.ended = w.next > 0
	}
	for _, c := range x.calls {
		c.end(nil)
	}
}

// unknown ends the batches of a transaction that may be committed or not.
func (x *transaction) unknown(err error) {
	x.t.producer.fresh = false
	x.aborted()
	for _, c := range x.calls {
		c.end(fmt.Errorf("%w: %w", sink.ErrUnknownOutcome, err))
	}
}

// giveUp aborts the transaction because of err. Batches with a refused record end, and those that
// nobody waits for; those with a partition that did not answer wait, the others go first into the
// next transaction. When the sink is closed [transactions.close] aborts the transaction.
func (x *transaction) giveUp(ctx context.Context, err error) {
	if lost(err) || ctx.Err() != nil {
		x.unknown(err)
		return
	}
	x.t.producer.fresh = false
	end := func() error { return x.end(ctx, false) }
	if x.open {
		// A batch without an answer may arrive later: a new epoch keeps it from joining the next
		// transaction (decision 20).
		end = func() error { return x.t.producer.ready(ctx) }
	}
	if err := end(); err != nil {
		x.unknown(err)
		return
	}
	x.aborted()
	var again []*call
	refused := false
	for _, c := range x.calls {
		c.reset()
		switch {
		case c.any(func(r *portion) bool { return r.rejection != nil }):
			refused = true
			c.end(nil)
		case c.partlySent():
			c.end(errPartlySent)
		case c.any(func(r *portion) bool { return r.worker.failure != nil }):
			c.end(errAgain)
		default:
			again = append(again, c)
		}
	}
	if refused {
		x.t.again = again
		return
	}
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	x.t.queue = append(again, x.t.queue...)
}

// aborted notes that the transaction may have been aborted: where the markers are nobody knows.
func (x *transaction) aborted() {
	for _, w := range x.partitions {
		w.next, w.ended = 0, false
	}
}

// fill makes a batch for each of several partitions of what is to be sent there, and returns how
// long a partition may fail to answer. The batches are sent at once, in one request to each leader:
// leaders verify the transaction of a producer for one request at a time.
func (x *transaction) fill(partitions []*worker) (batches []*wireBatch, limit time.Duration) {
	limit = x.t.stalledAfter
	bytes := 0
	for _, w := range partitions {
		for len(w.sending) > 0 && w.sending[0].next == len(w.sending[0].index) {
			w.sending = w.sending[1:]
		}
		if len(w.sending) == 0 || bytes > min(waveBytes, x.t.room) {
			continue
		}
		b := w.fill(w.sending)
		if b.count == 0 {
			b.release()
			w.sending = nil
			continue
		}
		if b.fault = b.seal(x.t.sink); b.fault == nil {
			if w.id == nil || w.id.producer != x.id.producer || w.id.epoch != x.id.epoch {
				id := x.id
				w.id = &id
			}
			b.stamp(*w.id)
		}
		b.unfit = b.fault != nil
		bytes += len(b.wire)
		if w.held && w.stalls%patientEvery > 0 {
			limit = x.t.retriedFor
		}
		batches = append(batches, b)
	}
	return batches, limit
}

// sendAll sends batches until each was answered, for limit at most. What a broker finds too large
// goes in halves with the next ones.
func (x *transaction) sendAll(ctx context.Context, batches []*wireBatch, limit time.Duration) error {
	began := time.Now()
	pause := backoff.Backoff{First: 5 * time.Millisecond, Max: time.Second}
	note := func(r *portion, do func()) { r.call.present(do) }
	for left := batches; ; {
		until := began.Add(max(time.Since(began)+leastWait, limit))
		sending, cancel := context.WithDeadlineCause(ctx, until.Add(time.Second), broker.ErrNoAnswer)
		generation := produce(answersBy{sending, until}, x.t.sink.cluster, x.t.producer.transactionalID, left...)
		cancel()
		var failure error
		again := left[:0:0]
		for _, b := range left {
			w := b.worker
			switch {
			case b.stored():
				b.taken(note)
				w.held, w.stalls = false, 0
			case broker.RemedyFor(b.fault) == broker.Split:
				// It may have arrived before, too.
				x.open = x.open || b.unanswered
				if b.refused(note) && failure == nil {
					failure = errRefused
				}
			case lost(b.fault):
				failure = b.fault
				continue
			default:
				again = append(again, b)
				continue
			}
			w.calm()
			b.release()
		}
		if failure == nil && len(again) == 0 {
			return nil
		}
		if failure == nil {
			failure = x.remedy(ctx, generation, again, time.Since(began), limit)
		}
		if failure == nil {
			failure = pause.Wait(ctx)
		}
		for _, b := range again {
			x.open = x.open || failure != nil && b.unanswered
		}
		if failure != nil {
			return failure
		}
		left = again
	}
}

// remedy does what can be done about batches that were not answered for good, or returns why they
// are not sent again.
func (x *transaction) remedy(ctx context.Context, generation int, again []*wireBatch, took, limit time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := x.t.sink
	var failure error
	for _, b := range again {
		w := b.worker
		err := w.remedy(ctx, generation, b.fault)
		if took > verifiedWithin || !errors.Is(err, kafkago.NotEnoughReplicas) {
			w.fault(err)
		}
		switch {
		case errors.Is(err, errMoved):
			s.believe(w.topic, 0)
			w.failure, failure = errMoved, errMoved
		case errors.Is(err, kafkago.InvalidTimestamp):
			w.late, w.failure, failure = true, err, err
		case took >= limit:
			w.held = true
			w.stalls++
			w.failure, failure = errStalled, errStalled
		}
	}
	return failure
}
