package reconcile

import (
	"context"
	"time"

	"bridge/internal/backoff"
)

// pace keeps a reader to a number of rows a second. The zero value does not hold it up.
type pace struct {
	rate int64
	next time.Time
}

// wait blocks until the next rows may be read.
func (p *pace) wait(ctx context.Context) error {
	if p.rate == 0 {
		return nil
	}
	return backoff.Pause(ctx, time.Until(p.next))
}

// took notes that rows were read.
func (p *pace) took(rows int) {
	if p.rate == 0 {
		return
	}
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(rows) / float64(p.rate) * float64(time.Second)))
}
