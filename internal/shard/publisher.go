package shard

import (
	"context"
	"time"

	"bridge/internal/catchup"
	"bridge/internal/tracing"
)

// publisher publishes the batches of a shard one after the other, and commits each once the bus has
// acknowledged all of it.
type publisher struct {
	opts     *Options
	status   *tracker
	retrier  *retrier
	sender   *sender
	recorder *recorder
	stamper  *stamper
	arrival  *arrival
	epoch    *catchup.Epoch
}

// run publishes every batch from in. It returns nil when in is closed, else why it cannot go on.
func (p *publisher) run(ctx context.Context, in <-chan *batch) error {
	defer p.status.idle(publishing)
	for b := range in {
		p.status.heartbeat(publishing)
		if err := p.publish(ctx, b); err != nil {
			b.discard(p.opts)
			return err
		}
		p.arrival.acknowledge(p.opts.Logger, len(b.messages), b.last)
		if b.saved != nil {
			b.saved()
		}
		p.opts.Limits.release(&b.held)
		b.recycle()
		p.status.dequeue()
		p.status.idle(publishing)
	}
	return nil
}

// publish sends b until all of it is acknowledged or put aside as a dead letter, and commits that.
// Of a batch that is given up in the middle nothing is committed: the error is an unresolvedError,
// and the bus is read before the next batch. It wraps catchup.ErrReadBack where the shard goes on
// by itself; any other stops the shard.
func (p *publisher) publish(ctx context.Context, b *batch) error {
	if len(b.messages) == 0 {
		return p.recorder.record(ctx, b, 0, nil)
	}
	first := p.stamper.stamp(p.epoch, b)
	p.opts.Committer.Sending(first, uint64(len(b.messages)))
	started := time.Now()
	traces := p.opts.Tracer != nil
	var traced tracing.Span
	if traces {
		traced = p.trace(b)
	}
	sent, err := p.sender.sendAll(ctx, b)
	if err == nil && sent.unknown {
		err = catchup.ErrReadBack
	}
	if traces {
		traced.End(err)
	}
	if err != nil {
		p.opts.Committer.Unknown(first)
		return &unresolvedError{err}
	}
	p.opts.Metrics.publish.WithLabelValues(p.opts.Stream).Observe(time.Since(started).Seconds())
	p.stamper.acknowledge(sent.repeated)
	// Invariant 1: what the bus has acknowledged is committed, and nothing else.
	if err := p.recorder.record(ctx, b, first, sent); err != nil {
		return &unresolvedError{err}
	}
	if p.opts.Tap.Listened() {
		p.show(b, sent)
	}
	p.status.countPublished(sent.rows)
	return nil
}

// trace begins the span of b, whose messages continue it.
func (p *publisher) trace(b *batch) tracing.Span {
	n := len(b.messages)
	read := b.read
	if read.asked.IsZero() {
		read = span{b.made, b.made}
	}
	s := p.opts.Tracer.Begin(tracing.Batch{
		Stream: p.opts.Stream, Shard: p.opts.Name, Rows: n, Bytes: len(b.buf),
		First: b.messages[0].RowID, Last: b.messages[n-1].RowID, Asked: read.asked, Got: read.got,
	})
	parent := s.Parent()
	for i := range b.messages {
		b.messages[i].TraceParent = parent
	}
	return s
}

// unresolvedError is the error of a shard of whose last batch the bus may have messages that the
// store does not know of: they are read before the shard goes on (rule 9).
type unresolvedError struct{ error }

func (e *unresolvedError) Unwrap() error { return e.error }
