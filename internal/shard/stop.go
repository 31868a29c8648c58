package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
	"bridge/source/ledger"
)

// ErrIDsReused is returned when the table hands out ids at or below the position: it was truncated,
// restored or its counter was reset. Rows under such ids would never be seen by the tail.
var ErrIDsReused = errors.New("the table uses ids again that were published")

// idWatch stops a shard whose ids are used again. It belongs to the owner.
type idWatch struct {
	opts      *Options
	reader    *reader
	published *publishedRows
	// askedAt is the highest id, below the position, at which the table's next id was asked for and
	// found good.
	askedAt *uint64
}

// refuse returns an error when the next id of the table is not above the position. Deleting the
// newest rows leaves the counter where it is and is no such case.
func (w *idWatch) refuse(ctx context.Context, position uint64) error {
	if position == 0 {
		return nil
	}
	next, err := w.reader.nextID(ctx)
	if err != nil || next == 0 || next > position {
		return err
	}
	remedy := w.published.remedyNow(ctx)
	return fmt.Errorf("%w: the next id of %s is %d, the position is %d: was it truncated or restored? %s", ErrIDsReused, w.opts.Name, next, position, remedy)
}

// check compares the rows published last where that is due, and asks for the next id when the
// highest id of the page lies below the position and has changed since it was asked. Where the page
// is to be read again, ready is false.
func (w *idWatch) check(ctx context.Context, p *page, position uint64) (ready bool, err error) {
	ready, moved, err := w.published.watch(ctx, p)
	if moved {
		// What was found out about the next id was another server's.
		w.askedAt = nil
	}
	if err != nil || !ready {
		return false, err
	}
	if p.MaxID >= position {
		w.askedAt = nil
		return true, nil
	}
	if w.askedAt != nil && *w.askedAt == p.MaxID {
		return true, nil
	}
	highest := p.MaxID
	if err := w.refuse(ctx, position); err != nil {
		return false, err
	}
	w.askedAt = &highest
	return true, nil
}

// nameLoss adds to the loss of a bus what publishes again.
func nameLoss(opts *Options, err error) error {
	if !errors.Is(err, sink.ErrBehind) {
		return err
	}
	former := ""
	if opts.Kind == event.Capability {
		former = "; if the bus has gone back to an earlier state, empty the destination of the stream first, where entities live that are gone since"
	}
	return fmt.Errorf("%w: once the cause is known, stop bridge, then `bridge checkpoint set %s %s 0` has all of the table published again%s",
		err, opts.Stream, opts.Name, former)
}

// Accept says that a person has agreed to the table as it is. A capability shard that stopped
// because ids are used again then reads all of it, and what its view knows already it does not
// publish again. It reports whether the shard had stopped for that.
func (s *Shard) Accept() bool { return s.opts.Kind == event.Capability && s.consent.give() }

// restart saves the position 0 with the view as it is.
func (s *Shard) restart(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	state.Position, state.Ledger, state.ReplaceLedger, state.Saved = ledger.Position{}, nil, true, time.Now()
	state.Published, state.ReplacePublished = nil, true
	if err := s.saver.save(ctx, owning, state); err != nil {
		return state, err
	}
	s.fromFirst = false
	s.opts.Logger.Warn("the table is read from its first row, since its ids are used again and a person has agreed")
	return state, nil
}
