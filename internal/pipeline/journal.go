package pipeline

import (
	"context"

	"bridge/checkpoint"
)

// resend publishes the batch that was about to be published, as it stands, and saves what holds then. It returns the state to go on from.
// Invariant 6: what was on its way when the process was killed is on the bus, whole and as it was, before anything is read.
func (s *Shard) resend(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	p := newPublisher(s, state, ctx, nil)
	if err := p.sendAll(ctx, state.Journal.Messages); err != nil {
		return state, err
	}
	after := state.Journal.After
	after.Marks = p.sortedMarks()
	if err := s.save(ctx, after); err != nil {
		return state, err
	}
	s.opts.Logger.Info("messages that were on their way at the last end were sent again", "messages", len(state.Journal.Messages))
	return s.opts.Store.Load(ctx, s.key())
}
