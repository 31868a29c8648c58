package shard

import (
	"context"
	"errors"
	"fmt"

	"bridge/internal/catchup"
	"bridge/sink"
)

// putAsideRow is a row of a batch whose dead letter is sent in its place.
type putAsideRow struct {
	index   int
	refused sink.Refused
	dead    sink.Message
	// smaller is the index of the next size to try.
	smaller int
}

// sendWhole sends the messages of b to a sink.Transactional until all of them are acknowledged at
// once, with dead letters in the place of those that the bus refuses.
func (s *sender) sendWhole(ctx context.Context, b *batch) error {
	var aside []*putAsideRow
	for left := b.messages; ; left = s.messages {
		outcome, err := s.send(ctx, left)
		s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		if errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced) {
			err = fmt.Errorf("%w: %w", catchup.ErrUnknownOutcome, err)
		}
		if err != nil {
			return err
		}
		if outcome.AllAcked() {
			s.locateAll(left, &outcome)
			for _, a := range aside {
				s.sent.locations[a.index].dead = &a.dead
				s.noted(&a.refused)
			}
			return nil
		}
		if aside, err = s.replace(b, aside, outcome.Rejected); err != nil {
			return err
		}
		s.messages = append(s.messages[:0], b.messages...)
		for _, a := range aside {
			s.messages[a.index] = a.dead
		}
	}
}

// replace makes dead letters of the rejected messages, and smaller ones of rejected dead letters.
func (s *sender) replace(b *batch, aside []*putAsideRow, rejected []sink.Rejection) ([]*putAsideRow, error) {
	if len(rejected) == 0 {
		return nil, fmt.Errorf("the bus has taken a part of a batch: %w", catchup.ErrUnknownOutcome)
	}
	for _, r := range rejected {
		var row *putAsideRow
		for _, a := range aside {
			if a.index == r.Index {
				row = a
			}
		}
		if row == nil {
			refused, err := s.refuse(b, r.Index, r.Reason)
			if err != nil {
				return nil, err
			}
			row = &putAsideRow{index: r.Index, refused: refused}
			aside = append(aside, row)
		}
		if row.smaller == len(excerpts) {
			return nil, s.refusedTwice(&row.refused)
		}
		row.dead = sink.DeadLetter(row.refused, s.opts.DeadLetter, excerpts[row.smaller])
		row.smaller++
	}
	return aside, nil
}
