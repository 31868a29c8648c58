package reconcile

import (
	"cmp"
	"context"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

const (
	// partsAtOnce is how many parts of a gap ledger are in memory together.
	partsAtOnce = 8
	// idRangesAtOnce and idsAtOnce bound one read of ids. Between its ranges lie more than nearIDs
	// ids that were published: fewer are read with them.
	idRangesAtOnce, idsAtOnce, nearIDs = 200, 10_000, 255
	// sweepSlack is how long a row of a release stream may take from its commit until the sweep
	// over cold gaps has found it.
	sweepSlack = 2 * time.Minute
)

// release passes once over the ids of the table, beside those that were not published and are no
// longer polled: rows under them are all that a release stream can have missed. It skips stretches
// of which everything was published. Rows that are gone are no event.
func (p *pass) release(ctx context.Context) error {
	var ranges []source.Range
	var ids source.IDs
	limiter := p.opts.newLimiter()
	defer func() {
		// A nomination in flight ends by itself or with ctx; an error that ends the run is told
		// already.
		_ = p.rows.wait()
	}()
	for p.run.After < p.run.Bound {
		if err := limiter.wait(ctx); err != nil {
			return err
		}
		var through uint64
		var err error
		if ranges, through, err = p.unpolled(ctx, ranges[:0], p.run.After+1, p.run.Bound); err != nil {
			return err
		}
		if err := p.compareIDs(ctx, ranges, through, &ids); err != nil {
			return err
		}
		limiter.read(len(ids.List))
		if err := p.commitDue(ctx); err != nil {
			return err
		}
	}
	return p.commit(ctx)
}

// unpolled appends to dst the ranges of ids from an id on that were not published and are no longer
// polled, and returns through which id they are all there, at most bound. Invariant 7: it reads a
// few parts of the ledger at once, and takes the same memory however many they are.
func (r *Reconciler) unpolled(ctx context.Context, dst []source.Range, from, bound uint64) (_ []source.Range, through uint64, err error) {
	var head, parts []ledger.Chunk
	err = r.retry(ctx, "read the gap ledger", func() (err error) {
		if head, err = r.parts(ctx, 0, 1); err == nil && len(head) > 0 {
			parts, err = r.parts(ctx, from, partsAtOnce)
		}
		return err
	})
	through = bound
	if err != nil || len(head) == 0 {
		return dst, through, err
	}
	saved, err := ledger.ReadSaved(head[0].Bytes)
	if err != nil {
		return dst, 0, err
	}
	if n := len(parts); n == partsAtOnce {
		// The ids between this part and the next one are unknown.
		through, parts = min(through, parts[n-1].Key-1), parts[:n-1]
	}
	dst = saved.Wide(dst)
	for _, part := range parts {
		if part.Key == 0 {
			continue
		}
		if dst, err = saved.Unpolled(dst, part); err != nil {
			return dst, 0, err
		}
	}
	slices.SortFunc(dst, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	return source.RangesThrough(source.RangesAbove(source.JoinRanges(dst, 0), from-1), through), through, nil
}

// parts returns up to limit parts of the gap ledger, beginning with the last one at or below from.
func (r *Reconciler) parts(ctx context.Context, from uint64, limit int) (parts []ledger.Chunk, err error) {
	for part, err := range r.opts.Store.Parts(ctx, r.key(), store.Gaps, from) {
		if err != nil {
			return nil, err
		}
		if parts = append(parts, ledger.Chunk{Key: part.Number, Bytes: part.Bytes}); len(parts) == limit {
			break
		}
	}
	return parts, nil
}

// compareIDs nominates the rows that exist in ranges, and moves the run to through, or to the last
// id that was read where there are too many.
func (p *pass) compareIDs(ctx context.Context, ranges []source.Range, through uint64, ids *source.IDs) error {
	ids.List, ids.Cut = ids.List[:0], false
	asked := source.JoinRanges(slices.Clone(ranges), nearIDs)
	if len(asked) > idRangesAtOnce {
		asked = asked[:idRangesAtOnce]
		through = asked[idRangesAtOnce-1].Last
	}
	if len(asked) > 0 {
		limit := idsAtOnce
		if p.opts.Rate > 0 {
			limit = min(limit, p.opts.PageRows)
		}
		err := p.query(ctx, "read ids of "+p.opts.Shard, func() error {
			return p.opts.Source.ReadIDs(ctx, asked, false, limit, ids)
		})
		if err != nil {
			return err
		}
		p.same(ids.Server)
	}
	for _, id := range ids.List {
		p.run.Scanned++
		for len(ranges) > 0 && ranges[0].Last < id {
			ranges = ranges[1:]
		}
		if len(ranges) == 0 || id < ranges[0].First {
			continue
		}
		p.rows.row(id)
		if p.rows.full() {
			if err := p.rows.send(ctx); err != nil {
				return err
			}
		}
	}
	p.run.After = through
	if n := len(ids.List); ids.Cut && n > 0 {
		p.run.After = ids.List[n-1]
	}
	return nil
}
