package catchup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/backoff"
	"bridge/sink"
)

// ErrStartAgain is returned where the bus has lost messages that this process has read while it
// waited: the next start reads what is left (rule 21).
var ErrStartAgain = errors.New("this process has to be started again")

// follower reads on for a stream while another process publishes it.
type follower struct {
	*CatchUp
	s *stream
}

// run reads on until it is the turn of this process to publish, and then to the end: so little is
// left to read when another process has ended.
func (c *follower) run(ctx context.Context) error {
	s := c.s
	s.Feed.Follow()
	defer s.setFollowed(time.Time{})
	ticker := time.NewTicker(c.opts.FollowEvery)
	defer ticker.Stop()
	for {
		s.setFollowed(time.Now())
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.opts.Turn:
			c.restartClock()
			if err := c.readAll(ctx, s); err != nil {
				return startAgain(err)
			}
			return c.reconcile(ctx, nil)
		case <-ticker.C:
			err = c.rounds(ctx, s, false)
		}
		if err != nil && !c.goesOnUnread(s, err) {
			return startAgain(err)
		}
		if err := c.passLate(ctx); err != nil {
			return err
		}
	}
}

// reconcile has a reconcile of the stream follow, and covers what is passed over for it. Behind a
// take-over: a message of a process before the last one may have come when that one had decided its
// entity, and before this one met the epoch by which it is late (rule 7).
func (c *follower) reconcile(ctx context.Context, passed []piece) error {
	return c.committer.reconcile(ctx, c.s, func(b *store.Batch) error {
		return c.committer.commitOnce(ctx, b, func(t *trial) error {
			for _, p := range passed {
				t.covered(p)
			}
			return nil
		})
	})
}

// startAgain has the process end where a start can mend what this one cannot: it has not published
// anything yet.
func startAgain(err error) error {
	if errors.Is(err, sink.ErrBehind) {
		return fmt.Errorf("%w: %w", ErrStartAgain, err)
	}
	return err
}

func (s *stream) setFollowed(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = at
}

// passLate lets the offsets pass late messages that were met a while ago. They were applied, and
// the process that works has decided their entities since; the reconcile that follows here finds
// what it has not. Else retention would pass these offsets while this process waits (rule 22).
func (c *follower) passLate(ctx context.Context) error {
	s := c.s
	s.mu.Lock()
	late := s.late.Load() > 0 && !s.unknown
	if !late {
		s.lateSince = time.Time{}
	} else if s.lateSince.IsZero() {
		s.lateSince = time.Now()
	}
	since := s.lateSince
	s.mu.Unlock()
	if !late || time.Since(since) < c.opts.IdleEvery {
		return nil
	}
	// Before the holes: what is met meanwhile counts for the next time.
	s.late.Store(0)
	var passed []piece
	for _, t := range s.partitions() {
		release, err := backoff.Acquire(ctx, t.reading)
		if err != nil {
			return err
		}
		if r, covered := c.committer.snapshot(s.Name, t.name); covered != nil {
			passed = append(passed, holesBelow(covered, t.cursors[r.Number])...)
		}
		release()
	}
	return c.reconcile(ctx, passed)
}

// holesBelow returns what is not covered of what was read: late messages.
func holesBelow(t *covered, cursor uint64) (holes []piece) {
	for h, found := t.hole(0); found && h.From < cursor; h, found = t.hole(h.To) {
		holes = append(holes, piece{tp: t.TP, Range: Range{From: h.From, To: min(h.To, cursor)}})
	}
	return holes
}

// isTurn reports whether it is the turn of this process to publish.
func (c *CatchUp) isTurn() bool {
	if c.opts.Turn == nil {
		return true
	}
	select {
	case <-c.opts.Turn:
		return true
	default:
		return false
	}
}

// restartClock has what was read, and for how long, count from now on.
func (c *follower) restartClock() {
	s, now := c.s, time.Now()
	c.mu.Lock()
	c.begun = now
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = now
	for name, at := range s.positions {
		at.from = at.to
		s.positions[name] = at
	}
}
