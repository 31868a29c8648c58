package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bridge/internal/catchup"
	"bridge/sink"
)

// putAsideRow is a row of a batch whose dead letter is sent instead.
type putAsideRow struct {
	index   int
	refused sink.Refused
	dead    sink.Message
	// smaller is the index of the next size to try.
	smaller int
}

// sendWhole sends the messages of b to a sink.Transactional until all of them are acknowledged at
// once, with dead letters instead of those that the bus refuses. Where a row may not be put
// aside, those before it are sent, as other sinks do: its error ends the attempt.
func (s *sender) sendWhole(ctx context.Context, b *batch) error {
	var aside []*putAsideRow
	var stop error
	for left := b.messages; len(left) > 0; left = s.messages {
		outcome, err := s.send(ctx, left)
		s.sent.rows += s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		if errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced) {
			err = fmt.Errorf("%w: %w", catchup.ErrReadBack, err)
		}
		if err != nil {
			return err
		}
		if outcome.AllAcked() {
			s.indices = s.indices[:len(left)]
			s.locateAll(ctx, left, &outcome)
			for _, a := range aside {
				s.sent.locations[a.index].dead = &a.dead
				s.noted(&a.refused)
			}
			return stop
		}
		if len(outcome.Rejected) == 0 {
			return fmt.Errorf("the bus has taken a part of a batch: %w", catchup.ErrReadBack)
		}
		s.messages = append(s.messages[:0], b.messages[:len(left)]...)
		for _, r := range outcome.Rejected {
			if r.Index >= len(s.messages) {
				continue
			}
			if aside, err = s.replace(b, aside, r); err != nil {
				stop, s.messages = err, s.messages[:r.Index]
			}
		}
		aside = slices.DeleteFunc(aside, func(a *putAsideRow) bool { return a.index >= len(s.messages) })
		for _, a := range aside {
			s.messages[a.index] = a.dead
		}
	}
	return stop
}

// replace makes a dead letter of a rejected message, or a smaller one of a rejected dead letter.
func (s *sender) replace(b *batch, aside []*putAsideRow, r sink.Rejection) ([]*putAsideRow, error) {
	i := slices.IndexFunc(aside, func(a *putAsideRow) bool { return a.index == r.Index })
	if i < 0 {
		refused, err := s.refuse(b, r.Index, r.Reason)
		if err != nil {
			return aside, err
		}
		i = len(aside)
		aside = append(aside, &putAsideRow{index: r.Index, refused: refused})
	}
	row := aside[i]
	if row.smaller == len(excerpts) {
		return aside, s.refusedTwice(&row.refused)
	}
	row.dead = sink.DeadLetter(row.refused, s.opts.DeadLetter, excerpts[row.smaller])
	row.smaller++
	return aside, nil
}
