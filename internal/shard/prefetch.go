package shard

import (
	"context"
	"errors"
	"time"

	"example.org/bridge/internal/panics"
	"example.org/bridge/source"
)

// prefetch is the page behind the one that becomes a batch, read meanwhile.
//
// Invariant 3: it changes when a page is read, not what is read before and after it. Any other
// query drops it first, which waits until it is read: so it is the last that was read, or it is
// gone, and the source serves one goroutine at a time. It is used for the very query that is asked
// next, else dropped, too.
type prefetch struct {
	query source.Query
	page  *page
	// held is the share that the page is to become a batch in. Who waits for a share has dropped
	// the page first.
	held hold
	// err is for those who have seen that done is closed.
	err  error
	done chan struct{}
}

// pageAge is how long a page may wait. Where the bus is away for an hour its rows have changed,
// what it says of the table is history, and its share is wanted elsewhere; to read one page again
// costs nothing then.
const pageAge = 3 * time.Second

// prefetch begins to read the page that q asks for, if memory and a turn to read are free: it takes
// neither from a shard that waits.
func (r *reader) prefetch(ctx context.Context, q source.Query) {
	held, ok := r.opts.Limits.tryReserve()
	if !ok {
		return
	}
	if !r.opts.Limits.reads.TryAcquire(1) {
		r.opts.Limits.release(&held)
		return
	}
	p := &prefetch{query: q, page: r.newPage(), held: held, done: make(chan struct{})}
	p.page.asked = time.Now()
	r.ahead = p
	go func() {
		defer close(p.done)
		defer r.opts.Limits.reads.Release(1)
		p.err = r.readAhead(ctx, q, p.page)
	}()
}

// readAhead fills p, unless that outgrows q.
func (r *reader) readAhead(ctx context.Context, q source.Query, p *page) error {
	err := panics.Guard(func() error { return r.readInto(ctx, q, p) })
	p.got = time.Now()
	if panics.Is(err) && ctx.Err() == nil {
		r.opts.Logger.Error("reading ahead failed, the page is read again", panics.LogArgs(err)...)
	}
	if err == nil && p.outgrows(q) {
		// Invariant 7: it would wait beside the page that becomes a batch.
		p.Reset()
		return errOutgrown
	}
	return err
}

// pageAhead returns the page that was prefetched for q, with its share. Else it returns nil, and
// nothing is prefetched any more: an error is found again by a read that can be tried again.
func (r *reader) pageAhead(q source.Query) (*page, hold, error) {
	p := r.ahead
	if p == nil {
		return nil, hold{}, nil
	}
	r.awaitAhead()
	if p.err != nil || !p.answers(q) || p.stale() {
		r.dropAhead()
		return nil, hold{}, nil
	}
	r.ahead = nil
	if err := r.answered(p.page); err != nil {
		p.page.free()
		return nil, p.held, err
	}
	return p.page, p.held, nil
}

// errOutgrown is why a page that was read is not kept.
var errOutgrown = errors.New("a row outgrows the page")

// outgrows reports whether a single row makes the page much larger than q allows.
func (p *page) outgrows(q source.Query) bool { return p.Bytes > 2*q.MaxBytes }

// answers reports whether the page is what a read of q would bring.
func (p *prefetch) answers(q source.Query) bool {
	return p.query.After == q.After && p.query.Through == q.Through && p.query.Limit == q.Limit && p.query.MaxBytes == q.MaxBytes
}

// stale reports whether the page, which is read, has waited for too long.
func (p *prefetch) stale() bool { return time.Since(p.page.got) > pageAge }

// awaitAhead waits until the source is free. The loop counts as standing still as it would had it
// read itself.
func (r *reader) awaitAhead() {
	p := r.ahead
	// It has no error.
	_ = r.retrier.wait(owning, readLimit-time.Since(p.page.asked), func() error { <-p.done; return nil })
}

// dropAhead waits until the source is free and gives back what was prefetched. It comes before all
// that asks the source or waits for memory.
func (r *reader) dropAhead() {
	p := r.ahead
	if p == nil {
		return
	}
	r.awaitAhead()
	r.ahead = nil
	p.page.free()
	r.opts.Limits.release(&p.held)
}

// dropStale drops what was prefetched if it would not be used any more, without waiting.
func (r *reader) dropStale() {
	p := r.ahead
	if p == nil {
		return
	}
	select {
	case <-p.done:
		if p.stale() {
			r.dropAhead()
		}
	default:
	}
}

// reserve waits for a share of the bytes in flight.
func (r *reader) reserve(ctx context.Context) (held hold, err error) {
	if r.oversize.big {
		// The page that did not fit is read again.
		held, r.oversize = r.oversize, hold{}
		return held, nil
	}
	// Of shards that wait for a share each might hold one for a page that it is not going to use.
	r.dropAhead()
	err = r.retrier.wait(owning, forEver, func() error {
		held, err = r.opts.Limits.reserve(ctx)
		return err
	})
	return held, err
}

// reserveBig waits until a batch of any size may be held, and keeps that for the next read.
func (r *reader) reserveBig(ctx context.Context, held *hold) error {
	r.dropAhead()
	err := r.retrier.wait(owning, forEver, func() error { return r.opts.Limits.reserveBig(ctx, held) })
	if err == nil {
		r.oversize, *held = *held, hold{}
	}
	return err
}

// hasOversize reports whether memory is held for a page that did not fit into a share.
func (r *reader) hasOversize() bool { return r.oversize.big }

// release gives back the memory that is held for a page.
func (r *reader) release() { r.opts.Limits.release(&r.oversize) }
