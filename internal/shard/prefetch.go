package shard

import (
	"context"
	"errors"
	"time"

	"bridge/internal/panics"
	"bridge/source"
	"bridge/source/ledger"
)

// prefetch is the page behind the one that becomes a batch, read meanwhile.
//
// Invariant 3: it changes when a page is read, not what is read before and after it. Whatever else asks the source drops it first, which waits
// until it is read: so it is the last that was read, or it is gone, and the source serves one goroutine at a time. It is used
// for the very query that is asked next, else dropped, too.
type prefetch struct {
	query source.Query
	page  *source.Page
	// late, when not nil, are late records that were read behind the page, as that turn would.
	late *latePage
	// held is the share that the page is to become a batch in. Who waits for a share has dropped the page first.
	held hold
	// asked and got are when the read began and ended; got and err are for those who have seen that done is closed.
	asked, got time.Time
	err        error
	done       chan struct{}
}

// prefetchAge is how long a page may wait. Where the bus is away for an hour its rows have changed, what it says of the table is history,
// and its share is wanted elsewhere; to read one page again costs nothing then.
const prefetchAge = 3 * time.Second

// prefetch begins to read the page behind position, and behind it the late records in ranges where that is not nil, if memory and a turn
// to read are free: it takes neither from a shard that waits.
func (s *Shard) prefetch(ctx context.Context, position ledger.Position, late []source.Range) {
	q := s.tailQuery(position)
	if s.second != nil || outgrows(s.page, q) {
		// The second cursor reads in between, and one large row seldom comes alone.
		return
	}
	held, ok := s.opts.Limits.tryReserve()
	if !ok {
		return
	}
	if !s.opts.Limits.reads.TryAcquire(1) {
		s.opts.Limits.release(&held)
		return
	}
	p := &prefetch{query: q, page: pages.Get().(*source.Page), held: held, asked: time.Now(), done: make(chan struct{})}
	if late != nil {
		p.late = &latePage{query: s.lateQuery(late), page: pages.Get().(*source.Page)}
	}
	s.prefetched = p
	go func() {
		defer close(p.done)
		defer s.opts.Limits.reads.Release(1)
		p.err = s.readAhead(ctx, q, p.page)
		p.got = time.Now()
		if p.err == nil && p.late != nil {
			p.err = s.readAhead(ctx, p.late.query, p.late.page)
		}
	}()
}

// readAhead fills page, unless that outgrows q.
func (s *Shard) readAhead(ctx context.Context, q source.Query, page *source.Page) error {
	err := panics.Guard(func() error { return s.readRows(ctx, q, page) })
	if panics.Is(err) && ctx.Err() == nil {
		s.opts.Logger.Error("reading ahead failed, the page is read again", panics.LogArgs(err)...)
	}
	if err == nil && outgrows(page, q) {
		// Invariant 7: it would wait beside the page that becomes a batch.
		page.Reset()
		return errOutgrown
	}
	return err
}

// takePrefetched makes s.page what was prefetched for q, and returns its share. Else it reports false, and nothing is prefetched any more:
// an error is found again by a read that can be tried again.
func (s *Shard) takePrefetched(q source.Query) (held hold, ok bool) {
	p := s.prefetched
	if p == nil {
		return hold{}, false
	}
	s.awaitPrefetched()
	if p.err != nil || !p.answers(q) || p.stale() {
		s.dropPrefetched()
		return hold{}, false
	}
	s.prefetched = nil
	s.page, s.asked, s.got = p.page, p.asked, p.got
	s.gaps.landing.ahead = p.late
	return p.held, true
}

// errOutgrown is why a page that was read is not kept.
var errOutgrown = errors.New("a row outgrows the page")

// outgrows reports whether a single row makes page much larger than q allows.
func outgrows(page *source.Page, q source.Query) bool { return page.Bytes > 2*q.MaxBytes }

// answers reports whether the page is what a read of q would bring.
func (p *prefetch) answers(q source.Query) bool {
	return p.query.After == q.After && p.query.Through == q.Through && p.query.Limit == q.Limit && p.query.MaxBytes == q.MaxBytes
}

// stale reports whether the page, which is read, has waited for too long.
func (p *prefetch) stale() bool { return time.Since(p.got) > prefetchAge }

// awaitPrefetched waits until the source is free. The loop counts as standing still as it would had it read itself.
func (s *Shard) awaitPrefetched() {
	p := s.prefetched
	// It has no error.
	_ = s.retrier.wait(owning, readLimit-time.Since(p.asked), func() error { <-p.done; return nil })
}

// dropPrefetched waits until the source is free and gives back what was prefetched. It comes before all that asks the source or waits
// for memory.
func (s *Shard) dropPrefetched() {
	p := s.prefetched
	if p == nil {
		return
	}
	s.awaitPrefetched()
	s.prefetched = nil
	p.page.Reset()
	pages.Put(p.page)
	p.late.free()
	s.opts.Limits.release(&p.held)
}

// dropStale drops what was prefetched if it would not be used any more, without waiting.
func (s *Shard) dropStale() {
	p := s.prefetched
	if p == nil {
		return
	}
	select {
	case <-p.done:
		if p.stale() {
			s.dropPrefetched()
		}
	default:
	}
}
