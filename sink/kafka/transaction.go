package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bridge/sink"
)

// Why a transaction is given up, besides an answer that it is lost.
var (
	// errRefused: a record is refused for good.
	errRefused = errors.New("a record was refused")
	// errStalled: a partition did not answer in time.
	errStalled = errors.New("a partition did not answer")
	// errTorn: a caller has left while its batch was sent in part.
	errTorn = errors.New("nobody waits for the rest of a batch")
)

// transaction is one transaction. It serves one goroutine.
type transaction struct {
	t  *transactions
	id identity
	// entries are the batches in it, partitions those that the coordinator has added.
	entries    []*entry
	partitions []*txnPartition
	// vague: a request to the coordinator had no answer at first, and may arrive once more.
	vague bool
	// open: records that were sent have no answer.
	open bool
}

// send adds batches to the transaction and sends them to their partitions. It returns when all were
// stored, or why the transaction cannot be committed.
func (x *transaction) send(ctx context.Context, list []*entry) error {
	list, err := x.join(ctx, list)
	x.entries = append(x.entries, list...)
	if err != nil {
		return err
	}
	x.t.step("TransactionAdded")
	var partitions []*txnPartition
	for _, e := range list {
		for _, r := range e.portions {
			p := x.t.partition(r.worker)
			if len(p.queue) == 0 {
				partitions = append(partitions, p)
			}
			p.enqueue(r)
		}
	}
	defer func() {
		for _, p := range partitions {
			p.queue = nil
		}
	}()
	for {
		w := newWave(x, partitions)
		if len(w.batches) == 0 {
			x.t.step("TransactionSent")
			if slices.ContainsFunc(list, (*entry).torn) {
				return errTorn
			}
			return nil
		}
		if err := w.send(ctx); err != nil {
			return err
		}
	}
}

// join adds the partitions of batches that are not in the transaction yet, and returns the batches
// that have joined: those whose topic is missing or not granted wait.
func (x *transaction) join(ctx context.Context, list []*entry) ([]*entry, error) {
	t := x.t.producer.tries(ctx)
	defer func() {
		x.vague = x.vague || t.unanswered > 0
		t.ended()
	}()
	for {
		more := x.more(list)
		if len(more) == 0 {
			return list, nil
		}
		workers := make([]*worker, len(more))
		for i, p := range more {
			workers[i] = p.worker
		}
		generation, err := x.t.producer.coordinator.add(ctx, x.id, workers)
		var topic *topicError
		switch {
		case err == nil:
			x.partitions = append(x.partitions, more...)
			return list, nil
		case errors.As(err, &topic):
			list = x.withoutTopic(list, topic)
		case lost(err):
			return list, err
		default:
			if err := t.failed(generation, err); err != nil {
				return list, err
			}
		}
	}
}

// more returns the partitions of batches that are not in the transaction.
func (x *transaction) more(list []*entry) (more []*txnPartition) {
	for _, e := range list {
		for _, r := range e.portions {
			p := x.t.partition(r.worker)
			if !slices.Contains(x.partitions, p) && !slices.Contains(more, p) {
				p.failure = nil
				more = append(more, p)
			}
		}
	}
	return more
}

// withoutTopic lets the batches wait that go to a topic.
func (x *transaction) withoutTopic(list []*entry, topic *topicError) []*entry {
	s := x.t.sink
	s.forgetTopic(topic.topic)
	return slices.DeleteFunc(list, func(e *entry) bool {
		i := slices.IndexFunc(e.portions, func(r *portion) bool { return r.worker.topic == topic.topic })
		if i >= 0 {
			w := e.portions[i].worker
			s.faults.fail(w.tp, scope(w.topic, w.partition, topic), explain(w.topic, topic))
			w.reported = true
			e.finish(errAgain)
		}
		return i >= 0
	})
}

// end ends the transaction at the coordinator. The error is that of ctx, or says that the outcome
// is unknown.
func (x *transaction) end(ctx context.Context, commit bool) error {
	t := x.t.producer.tries(ctx)
	defer func() {
		x.vague = x.vague || t.unanswered > 0
		t.ended()
	}()
	for {
		generation, err := x.t.producer.coordinator.end(ctx, x.id, commit)
		if err == nil || lost(err) {
			return err
		}
		if err := t.failed(generation, err); err != nil {
			return err
		}
	}
}

// commit commits the transaction, and ends its batches.
func (x *transaction) commit(ctx context.Context) {
	if len(x.partitions) > 0 {
		x.t.step("TransactionEnds")
		if err := x.end(ctx, true); err != nil {
			x.unknown(err)
			return
		}
		x.t.step("TransactionEnded")
	}
	if x.vague {
		// A late copy of a request is of the former epoch then.
		x.t.producer.doubtful()
	}
	for _, p := range x.partitions {
		p.committed()
	}
	for _, e := range x.entries {
		e.finish(nil)
	}
}

// unknown ends the batches of a transaction that may be committed or not.
func (x *transaction) unknown(err error) {
	x.t.producer.doubtful()
	for _, p := range x.partitions {
		p.aborted()
	}
	for _, e := range x.entries {
		e.finish(fmt.Errorf("%w: %w", sink.ErrUnknownOutcome, err))
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
	x.t.producer.doubtful()
	if err := x.abort(ctx); err != nil {
		x.unknown(err)
		return
	}
	for _, p := range x.partitions {
		p.aborted()
	}
	var again []*entry
	refused := false
	for _, e := range x.entries {
		e.reset()
		switch {
		case len(e.rejections()) > 0:
			refused = true
			e.finish(nil)
		case e.torn():
			e.finish(errTorn)
		case slices.ContainsFunc(e.portions, func(r *portion) bool { return x.t.partition(r.worker).holdsUp() }):
			e.finish(errAgain)
		default:
			again = append(again, e)
		}
	}
	if refused {
		x.t.again = again
		return
	}
	x.t.giveBack(again)
}

// abort aborts the transaction. A batch without an answer may arrive later: a new epoch keeps it
// from joining what follows (decision 20, 6).
func (x *transaction) abort(ctx context.Context) error {
	if x.open {
		return x.t.producer.ready(ctx)
	}
	return x.end(ctx, false)
}
