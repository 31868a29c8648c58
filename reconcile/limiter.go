package reconcile

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// limiter bounds the rows read a second. Without a bound it never waits.
type limiter struct {
	*rate.Limiter
	// owed is how many rows were read and not waited for.
	owed int
}

// newLimiter returns a limiter that permits the first read at once.
func (o Options) newLimiter() *limiter {
	limit := rate.Inf
	if o.Rate > 0 {
		limit = rate.Limit(o.Rate)
	}
	l := &limiter{Limiter: rate.NewLimiter(limit, o.PageRows)}
	l.AllowN(time.Now(), l.Burst())
	return l
}

// wait blocks before a read until the rows of the read before are permitted. So no page grows old
// while it waits for its rate.
func (l *limiter) wait(ctx context.Context) error {
	err := l.WaitN(ctx, l.owed)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.owed = 0
	return err
}

// read notes that rows were read; more than Options.PageRows count as these.
func (l *limiter) read(rows int) { l.owed = min(rows, l.Burst()) }
