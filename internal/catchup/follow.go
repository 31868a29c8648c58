package catchup

import (
	"context"
	"time"
)

// follow reads on until it is the turn of this process to publish, and then to the end: so little
// is left to read when another process has ended.
func (c *CatchUp) follow(ctx context.Context, s *stream) error {
	if c.opts.Turn == nil {
		return nil
	}
	s.following.Store(true)
	defer s.following.Store(false)
	ticker := time.NewTicker(c.opts.FollowEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.opts.Turn:
			c.restartClock(s)
			return c.readAll(ctx, s)
		case <-ticker.C:
		}
		if err := c.rounds(ctx, s, false); err != nil && !c.goesOnUnread(s, err) {
			return err
		}
	}
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
func (c *CatchUp) restartClock(s *stream) {
	now := time.Now()
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
