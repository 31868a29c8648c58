package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles a pause with every attempt, from First up to Max, each shortened at random by up to a half so that many
// waiters do not come back together. The zero value is not usable; it serves one goroutine.
type Backoff struct {
	// First and Max bound the pause, before chance shortens it.
	First, Max time.Duration
	next       time.Duration
}

// Wait pauses before the next attempt. It returns the cause of ctx when that ends first.
func (b *Backoff) Wait(ctx context.Context) error { return Pause(ctx, b.Next()) }

// Pause lets d pass. It returns the cause of ctx when that ends first, or has ended where d is not positive.
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

// Next returns the pause before the next attempt, for who does something else meanwhile.
func (b *Backoff) Next() time.Duration {
	b.next = min(max(b.next, b.First), b.Max)
	pause := b.next/2 + rand.N(b.next/2+1)
	b.next *= 2
	return pause
}

// Reset makes the next pause the first one again, after a success.
func (b *Backoff) Reset() { b.next = 0 }
