package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/source"
	"bridge/source/ledger"
)

func (o *Options) key() checkpoint.Key {
	return checkpoint.Key{Stream: o.Stream, Shard: o.Name}
}

// begin loads the shard's state, or makes and saves its first one, compares it with the bus and
// sends again what was on its way. It returns the state to go on from, and the owner for it.
func (s *Shard) begin(ctx context.Context, v *view) (checkpoint.State, *owner, error) {
	state, err := s.opts.Store.Load(ctx, s.opts.key())
	found := state.Saved
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		if state, err = s.firstState(ctx); err != nil {
			return state, nil, err
		}
	case err != nil:
		return state, nil, fmt.Errorf("load the checkpoint: %w", err)
	}
	if err := checkMeaning(&s.opts, &state); err != nil {
		return state, nil, err
	}
	if err := s.retrier.wait(owning, forEver, func() error { return s.opts.Sink.Verify(ctx, state.Offsets) }); err != nil {
		return state, nil, err
	}
	if state, err = s.recovery.recall(ctx, state); err != nil {
		return state, nil, err
	}
	if state, err = s.recovery.sendJournals(ctx, state); err != nil {
		return state, nil, err
	}
	if s.fromFirst {
		if state, err = s.restart(ctx, state); err != nil {
			return state, nil, err
		}
	}
	if err := s.server.refresh(ctx); err != nil {
		return state, nil, err
	}
	if err := s.gaps.open(state); err != nil {
		return state, nil, err
	}
	snapshot := &snapshot{opts: &s.opts, reader: s.reader, saver: s.saver, gaps: s.gaps, view: v}
	if state, err = snapshot.run(ctx, state); err != nil {
		return state, nil, err
	}
	published, err := openPublished(s.server, &state)
	if err != nil {
		return state, nil, err
	}
	s.status.saved(state.Position)
	if err := s.refuseTailless(); err != nil {
		return state, nil, err
	}
	s.arrival.begin(s.opts.Logger, state.Position.ID, found)
	return state, s.newOwner(&state, v, published), nil
}

// refuseTailless is the error of a release stream whose ids have no order.
func (s *Shard) refuseTailless() error {
	if !s.server.tailless() || s.opts.Kind == event.Capability {
		return nil
	}
	return fmt.Errorf("%w: ids without an order (%s) cannot be tailed, and a release stream is nothing but its tail: "+
		"set ID_ORDER if they have one, or make it a capability stream, which reconcile alone can publish", source.ErrUnfit, s.server.traits.OrderWhy)
}

// everyID is how far a shard without a tail reaches: every row may be judged.
const everyID = math.MaxUint64

// firstState makes the state of a shard that has none. A start elsewhere than at the beginning is saved at once, so that it
// is decided once and not at every restart.
func (s *Shard) firstState(ctx context.Context) (checkpoint.State, error) {
	state := checkpoint.State{Position: ledger.Position{ID: s.opts.Start.After}}
	if s.opts.Start.Latest || s.opts.Start.After > 0 {
		p, err := s.reader.page(ctx, source.Query{Limit: 1})
		if err != nil {
			return state, err
		}
		highest := p.MaxID
		state.Cursor = cursorAt(&s.opts, p.Columns, p.Now)
		p.free()
		if s.opts.Start.Latest {
			state.Position.ID = highest
		} else if highest < s.opts.Start.After {
			return state, fmt.Errorf("%w: START is %d, the highest id of %s is %d: correct START, or wait until the table has come that far",
				source.ErrUnfit, s.opts.Start.After, s.opts.Name, highest)
		}
	}
	if !s.opts.Start.Latest && state.Position.ID == 0 {
		return state, nil
	}
	if err := s.server.refresh(ctx); err != nil {
		return state, err
	}
	if !s.server.tailless() {
		parts, err := s.gaps.seed(ctx, state.Position.ID)
		if err != nil {
			return state, err
		}
		state.Ledger, state.ReplaceLedger = parts, true
	}
	if s.opts.Kind == event.Capability && state.Position.ID > 0 {
		state.Snapshot = source.Range{First: 1, Last: state.Position.ID}
	}
	state.Saved = time.Now()
	return state, s.saver.save(ctx, owning, state)
}
