package pipeline

import (
	"context"
	"errors"

	"bridge/checkpoint"
)

// sendJournal publishes the batch that was about to be published, as it stands, and saves what holds then. It returns the state to go on from.
// Invariant 6: what was on its way when the process was killed is on the bus, whole and as it was, before anything is read.
func (s *Shard) sendJournal(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	p := newPublisher(s, state, ctx, nil)
	p.loop = owning
	sent, after := len(state.Journal.Messages), state.Journal.After
	if left, err := p.sendAll(ctx, &batch{messages: state.Journal.Messages, changes: after.View}); err != nil {
		if _, full := errors.AsType[*letterLimitError](err); full {
			state.Marks, state.Journal = p.sortedMarks(), &checkpoint.Journal{Messages: left, After: after}
			err = errors.Join(err, s.save(ctx, owning, state))
		}
		return state, err
	}
	after.Marks = p.sortedMarks()
	if err := s.save(ctx, owning, after); err != nil {
		return state, err
	}
	s.opts.Logger.Info("messages that were on their way at the last end were sent again", "messages", sent)
	return s.opts.Store.Load(ctx, s.key())
}
