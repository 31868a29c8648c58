package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
	"bridge/internal/panics"
	"bridge/sink"
)

// publisher publishes the batches of a shard one after the other and passes on what may be saved.
// Those of a capability shard go through two goroutines: the journal of one is saved while the one
// before it is published.
type publisher struct {
	opts    *Options
	status  *tracker
	retrier *retrier
	sender  *sender
	arrival *arrival
	// journals says that batches are saved before they are published.
	journals bool
	unsaved  *unsaved
	// request hands a request to the saver, and fails when nothing can be saved any more. order has
	// them reach it in the order in which they were made: a position never goes back.
	request func(save) error
	order   sync.Mutex
	// planned is the state behind the last batch that came, numbered the number of the last journal.
	// They belong to the goroutine that writes journals.
	planned  front
	numbered uint64
	// acked is that of the last batch without a journal, nil when a journal came after it.
	acked <-chan struct{}
}

// run publishes every batch from in. It returns nil when in is closed, else why it cannot go on; what was acknowledged up to
// there has been passed on then.
func (p *publisher) run(ctx context.Context, in <-chan *batch) error {
	defer p.status.rest(publishing)
	if !p.journals {
		return p.publishAll(ctx, in, in)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ready := make(chan *batch)
	var stages errgroup.Group
	stages.Go(func() error {
		defer close(ready)
		return panics.Guard(func() error { return p.journalAll(ctx, in, ready) })
	})
	stages.Go(func() error {
		err := panics.Guard(func() error { return p.publishAll(ctx, ready, in) })
		stop(err)
		for b := range ready {
			p.drop(b)
		}
		return err
	})
	return stages.Wait()
}

// drop frees a batch that is not published, or not all of it. The saver may hold a journal of its messages still: they are left to the garbage collector.
func (p *publisher) drop(b *batch) {
	p.opts.Limits.release(&b.held)
}

// publishAll publishes the batches from ready, behind which others wait in queue.
func (p *publisher) publishAll(ctx context.Context, ready, queue <-chan *batch) error {
	for b := range ready {
		p.status.turn(publishing)
		err := p.publish(ctx, b)
		if err == nil && (!b.journal || len(queue) == 0) {
			// Otherwise it goes into the transaction of the next journal, which waits for no bus.
			err = p.flush()
		}
		if err != nil {
			p.drop(b)
			return errors.Join(err, p.flush())
		}
		p.arrival.acknowledge(p.opts.Logger, len(b.messages), b.last)
		p.opts.Limits.release(&b.held)
		b.recycle()
		p.status.dequeue()
		p.status.rest(publishing)
	}
	return p.flush()
}

// publish sends b until all of it is acknowledged or put aside as a dead letter. What was acknowledged of a batch that is given
// up in the middle is published again: its position and its part of the ledger belong together.
func (p *publisher) publish(ctx context.Context, b *batch) error {
	var err error
	if b.journal && b.after == nil && len(b.messages) > 0 {
		// Rows of a release stream that reconcile has found.
		err = p.journal(ctx, b, p.unsaved.after(b))
	} else {
		err = p.fixTimes(ctx, b)
	}
	if err != nil {
		return err
	}
	if failpoint.Mutant(failpoint.SaveBeforePublish) {
		return p.mutantSaveFirst(ctx, b)
	}
	if failpoint.Mutant(failpoint.MessageLate) {
		b.messages = p.mutantPostpone(b.messages)
	}
	started := time.Now()
	if left, err := p.sender.sendAll(ctx, b); err != nil {
		return errors.Join(err, p.keep(ctx, b, left, err))
	}
	if len(b.messages) > 0 {
		p.opts.Metrics.publish.WithLabelValues(p.opts.Stream).Observe(time.Since(started).Seconds())
	}
	failpoint.Pass(failpoint.BeforeAck)
	p.unsaved.acknowledge(b, p.sender.fresh())
	failpoint.Pass(failpoint.AfterAck)
	return nil
}

// keep saves what is left of a batch that ends at the limit of dead letters, so that a restart goes on with it instead of filling the limit with
// the same rows again. Invariant 1: the position stays before the batch.
func (p *publisher) keep(ctx context.Context, b *batch, left []sink.Message, err error) error {
	if _, full := errors.AsType[*letterLimitError](err); !full {
		return nil
	}
	p.unsaved.advance(p.sender.fresh())
	if b.number == 0 {
		p.numbered++
		b.number = p.numbered
	}
	return p.saveNow(ctx, &checkpoint.Journal{Number: b.number, Messages: left, After: p.unsaved.after(b)})
}

// fixTimes sees to it that the clocks that stand for the times of rows without one are durable before any of b is published.
// Invariant 4: a repeat after a crash has the same times and so the same bytes.
func (p *publisher) fixTimes(ctx context.Context, b *batch) error {
	if fresh := p.unsaved.advanceReading(b); !fresh && !b.lateClock {
		return nil
	}
	return p.saveNow(ctx, nil)
}

// saveNow passes the state on with a journal and returns once both are durable.
func (p *publisher) saveNow(ctx context.Context, journal *checkpoint.Journal) error {
	done := make(chan struct{})
	if err := p.save(journal, func() { close(done) }); err != nil {
		return err
	}
	return p.retrier.wait(publishing, forEver, func() error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// flush passes on what was acknowledged and is not passed on yet.
func (p *publisher) flush() error {
	if p.unsaved.empty() {
		return nil
	}
	return p.save(nil, nil)
}

// save passes the state on; done, when not nil, is called once it is durable.
func (p *publisher) save(journal *checkpoint.Journal, done func()) error {
	p.order.Lock()
	defer p.order.Unlock()
	request := p.unsaved.request(journal)
	if done != nil {
		request.done, request.patient = append(request.done, done), false
	}
	return p.retrier.wait(publishing, forEver, func() error { return p.request(request) })
}
