package shard

import (
	"context"
	"errors"
	"time"

	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source/ledger"
)

// pausing is whether the shard is paused. It is safe for concurrent use.
type pausing struct {
	ending
	// known says that the store was asked, or that a person has paused or resumed the shard since.
	known bool
	// since is when it was paused, zero while it is not.
	since time.Time
	// changed is closed when since changes, nil unless somebody waits.
	changed chan struct{}
}

// errPaused ends the reads of an attempt: what is in flight is published and committed.
var errPaused = errors.New("the shard is paused")

// change has since be known. The caller holds mu.
func (p *pausing) change(since time.Time) {
	p.known, p.since = true, since
	if p.set(nil); !since.IsZero() {
		p.set(errPaused)
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// load has what the store says be known, unless a person has said something since.
func (p *pausing) load(read func() (time.Time, error)) (err error) {
	var since time.Time
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if !known {
		since, err = read()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !p.known {
		p.change(since)
	}
	return err
}

// get returns since, and what is closed when that changes.
func (p *pausing) get() (since time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.since, p.changed
}

// pausedOr returns errPaused for an attempt whose reads have ended for that, else its error.
func pausedOr(read context.Context, err error) error {
	if err == nil && errors.Is(context.Cause(read), errPaused) {
		return errPaused
	}
	return err
}

// SetPaused says since when the shard is paused, zero to have it go on. A shard that is paused
// reads nothing and publishes nothing once what was in flight is committed: then its state is
// [Paused]. The caller has saved the pause. It may come before the shard runs.
func (s *Shard) SetPaused(since time.Time) {
	s.pausing.mu.Lock()
	s.pausing.change(since)
	s.pausing.mu.Unlock()
	s.status.pause(&s.pausing)
	s.wake()
}

// pause has the status say what p was told last, also where of two callers the former is late.
func (t *tracker) pause(p *pausing) {
	t.update(func(status *Status) {
		since, _ := p.get()
		status.PausedAt = null.At(since)
	})
}

// IsPaused reports whether the shard is paused, or has been told to be.
func (s *Shard) IsPaused() bool {
	since, _ := s.pausing.get()
	return !since.IsZero()
}

// loadPause asks the store, which has what the bus has of the progress by now.
func (s *Shard) loadPause(ctx context.Context) error {
	// A shard that is paused does not begin, and its status has it all the same.
	if err := s.retrier.readStore(ctx, func() error { return s.opts.Feed.OpenRepublish(ctx, s.opts.Name) }); err != nil {
		return err
	}
	err := s.pausing.load(func() (since time.Time, err error) {
		err = s.retrier.readStore(ctx, func() error {
			pause, err := stream.LoadPause(ctx, s.opts.Store, s.opts.key())
			since = pause.Since
			return err
		})
		return since, err
	})
	s.status.pause(&s.pausing)
	return err
}

// awaitResumed returns once the shard is not paused, or with the cause why ctx ended.
func (s *Shard) awaitResumed(ctx context.Context) error {
	since, changed := s.pausing.get()
	if since.IsZero() {
		return nil
	}
	s.endLive()
	// The ledger goes on by the clock that it was saved with: none of the time until then counts.
	s.reader.clock, s.gaps.at, s.gaps.seen = ledger.Steady{}, time.Time{}, time.Time{}
	s.status.rest(true)
	defer s.status.rest(false)
	for _, dependency := range []string{s.retrier.source, s.retrier.table, s.retrier.store, s.retrier.view} {
		// It asks nothing of them any more. Other tables of the source, which find it away within
		// seconds, go on with the outage.
		s.opts.Faults.Forget(dependency)
	}
	s.opts.Logger.Info("paused: nothing is read or published until it is resumed", "since", since)
	for !since.IsZero() {
		select {
		case <-changed:
			since, changed = s.pausing.get()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.opts.Logger.Info("resumed")
	return nil
}

// rest notes that the shard rests since it is paused, or goes on.
func (t *tracker) rest(rests bool) {
	t.update(func(s *Status) {
		if t.rests = rests; rests {
			t.faults, t.sent, t.beats = [stages]string{}, time.Time{}, [loops]time.Time{}
			t.lag.stop(false)
		}
	})
}
