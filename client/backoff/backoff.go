package backoff

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles a pause with every attempt, from First up to Max. Each pause is shortened at
// random by up to a half, so that many waiters do not come back together. It serves one goroutine.
type Backoff struct {
	// First and Max bound the pause before it is shortened. They default to 50 ms and 2 s.
	First, Max time.Duration
	// Limit bounds each Retry, counted from its first failure. Zero means no limit.
	Limit time.Duration
	next  time.Duration
}

// Retry calls try until it succeeds. It returns the error of try when that is not transient or when
// Limit has passed, and the cause of ctx when that ends first.
func (b *Backoff) Retry(ctx context.Context, try func() error, transient func(error) bool) error {
	for first := (time.Time{}); ; {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !transient(err) || b.Limit > 0 && !first.IsZero() && time.Since(first) > b.Limit:
			return err
		case first.IsZero():
			first = time.Now()
		}
		if err := b.Wait(ctx); err != nil {
			return err
		}
	}
}

// Wait pauses before the next attempt. It returns the cause of ctx when that ends first.
func (b *Backoff) Wait(ctx context.Context) error { return Pause(ctx, b.Next()) }

// Pause waits for d. It returns the cause of ctx when that ends first, or has already ended.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Acquire acquires a lock that is a channel with room for one, or a slot of one with room for more.
// It returns the cause of ctx when that ends first.
func Acquire(ctx context.Context, lock chan struct{}) (release func(), err error) {
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Next returns the pause before the next attempt, for a caller that does something else meanwhile.
func (b *Backoff) Next() time.Duration {
	b.next = min(max(b.next, cmp.Or(b.First, 50*time.Millisecond)), cmp.Or(b.Max, 2*time.Second))
	pause := b.next/2 + rand.N(b.next/2+1)
	b.next *= 2
	return pause
}

// Reset makes the next pause the first one again, after a success.
func (b *Backoff) Reset() { b.next = 0 }
