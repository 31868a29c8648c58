package reconcile

import (
	"context"

	"golang.org/x/time/rate"
)

// limiter bounds the rows read a second. Without a bound it never waits.
type limiter struct{ *rate.Limiter }

func (o Options) newLimiter() limiter {
	limit := rate.Inf
	if o.Rate > 0 {
		limit = rate.Limit(o.Rate)
	}
	return limiter{rate.NewLimiter(limit, o.PageRows)}
}

// wait blocks until the rows of one read are permitted; more than Options.PageRows count as these.
func (l limiter) wait(ctx context.Context, rows int) error {
	err := l.WaitN(ctx, min(rows, l.Burst()))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
