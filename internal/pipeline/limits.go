package pipeline

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Limits bounds what all shards of a process use together: the bytes of batches that are read, wait or are in flight, and the
// reads that run at the same time. It is safe for concurrent use.
// Invariant 7: memory is bounded whatever the backlog and the number of shards.
type Limits struct {
	bytes *semaphore.Weighted
	reads *semaphore.Weighted
	share int64
	used  atomic.Int64
}

// A read reserves a share of the budget before it knows how much it will bring. The values of a page may take a quarter of
// it: encoded as events and messages they need the rest.
const (
	maxShare     = 4 << 20
	shareDivisor = 8
	valuesPart   = 4
)

// NewLimits returns limits of maxBytes in flight and maxReads concurrent reads, both at least 1.
func NewLimits(maxBytes int64, maxReads int) *Limits {
	return &Limits{
		bytes: semaphore.NewWeighted(maxBytes),
		reads: semaphore.NewWeighted(int64(maxReads)),
		share: max(1, min(maxShare, maxBytes/shareDivisor)),
	}
}

// InFlight returns the bytes that are reserved at the moment.
func (l *Limits) InFlight() int64 { return l.used.Load() }

// pageBytes is the bound for the values of one page.
func (l *Limits) pageBytes() int { return int(max(1, l.share/valuesPart)) }

// reserve blocks until a share is free.
func (l *Limits) reserve(ctx context.Context) error {
	if err := l.bytes.Acquire(ctx, l.share); err != nil {
		return err
	}
	l.used.Add(l.share)
	return nil
}

// settle trades a share for what a batch really needs, and returns what must be released later. One that needs more than
// a share takes what is free on top and is else let pass: its page was bounded already.
func (l *Limits) settle(need int64) int64 {
	held := min(need, l.share)
	if need > l.share && l.bytes.TryAcquire(need-l.share) {
		l.used.Add(need - l.share)
		return need
	}
	l.release(l.share - held)
	return held
}

func (l *Limits) release(n int64) {
	l.bytes.Release(n)
	l.used.Add(-n)
}
