package catchup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint/store"
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
			// A message of a process before the last one may have come when that one had decided
			// its entity, and before this one met the epoch by which it is late (rule 7).
			return c.committer.reconcile(ctx, s, func(b *store.Batch) error { return c.committer.cover(ctx, b) })
		case <-ticker.C:
			err = c.rounds(ctx, s, false)
		}
		if err != nil && !c.goesOnUnread(s, err) {
			return startAgain(err)
		}
	}
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
