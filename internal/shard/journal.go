package shard

import (
	"context"
	"errors"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
)

// sendJournals publishes the batches that were about to be published, as they stand and in their order, and saves what holds then. It returns
// the state to go on from.
// Invariant 6: what was on its way when the process was killed is on the bus, whole and as it was, before anything is read.
func (r *recovery) sendJournals(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	if len(state.Journals) == 0 || failpoint.Mutant(failpoint.NoResend) {
		return state, nil
	}
	sent := 0
	for _, j := range state.Journals {
		if err := r.sendJournal(ctx, &state, j); err != nil {
			return state, err
		}
		sent += len(j.Messages)
	}
	r.opts.Logger.Info("messages that were on their way at the last end were sent again", "messages", sent)
	return r.opts.Store.Load(ctx, r.opts.key())
}

// sendJournal publishes a journal of state and saves what holds then, from where the next one goes on.
func (r *recovery) sendJournal(ctx context.Context, state *checkpoint.State, j *checkpoint.Journal) error {
	sender := &sender{opts: r.opts, retrier: r.retrier, loop: owning}
	after, reached := j.After, byTP(state.Offsets)
	left, err := sender.sendAll(ctx, &batch{messages: j.Messages, changes: after.View})
	r.offsets.advance(reached, sender.fresh())
	if err != nil {
		if _, full := errors.AsType[*letterLimitError](err); full {
			before := *state
			before.Offsets, before.Keep = sorted(reached), j.Number
			before.Journals = []*checkpoint.Journal{{Number: j.Number, Messages: left, After: after}}
			err = errors.Join(err, r.saver.save(ctx, owning, before))
		}
		return err
	}
	after.Offsets, after.Keep = sorted(reached), j.Number+1
	if err := r.saver.save(ctx, owning, after); err != nil {
		return err
	}
	// What is saved is not saved again with what comes behind it.
	after.Ledger, after.ReplaceLedger, after.View, after.Given, after.Found = nil, false, nil, nil, nil
	*state = after
	return nil
}

// journalAll writes a journal for each batch from in and hands it on. Two journals are in the file at most: that of the batch that is being
// published, and the next one.
func (p *publisher) journalAll(ctx context.Context, in <-chan *batch, ready chan<- *batch) error {
	for {
		var b *batch
		select {
		case next, open := <-in:
			if !open {
				return nil
			}
			b = next
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.writeAhead(ctx, b); err != nil {
			p.drop(b)
			return err
		}
		select {
		case ready <- b:
		case <-ctx.Done():
			p.drop(b)
			return context.Cause(ctx)
		}
	}
}

// writeAhead makes b durable before any of it is published, together with what was acknowledged meanwhile. A batch without messages has
// nothing to be sent again.
// Invariant 6: after a kill the batch is sent again as it stands, whatever has become of its rows.
func (p *publisher) writeAhead(ctx context.Context, b *batch) error {
	after := p.planned.after(b)
	b.after, p.planned = &after, frontOf(&after)
	if len(b.messages) == 0 {
		b.acked = make(chan struct{})
		p.acked = b.acked
		return nil
	}
	if p.acked != nil {
		// The state behind a journal goes on from what is saved with it: a batch that no journal holds has to be in there.
		select {
		case <-p.acked:
			p.acked = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return p.journal(ctx, b, after)
}

// journal makes the messages of b durable, and what holds after them.
func (p *publisher) journal(ctx context.Context, b *batch, after checkpoint.State) error {
	p.numbered++
	b.number = p.numbered
	failpoint.Pass(failpoint.BeforeJournal)
	err := p.saveNow(ctx, &checkpoint.Journal{Number: b.number, Messages: b.messages, After: after})
	failpoint.Pass(failpoint.AfterJournal)
	return err
}
