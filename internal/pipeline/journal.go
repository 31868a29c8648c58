package pipeline

import (
	"context"
	"errors"

	"bridge/checkpoint"
)

// sendJournals publishes the batches that were about to be published, as they stand and in their order, and saves what holds then. It returns
// the state to go on from.
// Invariant 6: what was on its way when the process was killed is on the bus, whole and as it was, before anything is read.
func (s *Shard) sendJournals(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	if len(state.Journals) == 0 {
		return state, nil
	}
	sent := 0
	for _, j := range state.Journals {
		if err := s.sendJournal(ctx, &state, j); err != nil {
			return state, err
		}
		sent += len(j.Messages)
	}
	s.opts.Logger.Info("messages that were on their way at the last end were sent again", "messages", sent)
	return s.opts.Store.Load(ctx, s.key())
}

// sendJournal publishes a journal of state and saves what holds then, from where the next one goes on.
func (s *Shard) sendJournal(ctx context.Context, state *checkpoint.State, j *checkpoint.Journal) error {
	p := newPublisher(s, *state, ctx, nil)
	p.loop = owning
	after := j.After
	left, err := p.sendAll(ctx, &batch{messages: j.Messages, changes: after.View})
	p.takeMarks()
	if err != nil {
		if _, full := errors.AsType[*letterLimitError](err); full {
			before := *state
			before.Marks, before.Keep = p.sortedMarks(), j.Number
			before.Journals = []*checkpoint.Journal{{Number: j.Number, Messages: left, After: after}}
			err = errors.Join(err, s.save(ctx, owning, before))
		}
		return err
	}
	after.Marks, after.Keep = p.sortedMarks(), j.Number+1
	if err := s.save(ctx, owning, after); err != nil {
		return err
	}
	// What is saved is not saved again with what comes behind it.
	after.Ledger, after.LedgerAnew, after.View, after.Given, after.Found = nil, false, nil, nil, nil
	*state = after
	return nil
}
