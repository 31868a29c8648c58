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
	var (
		unpolled = unpolled{pass: p}
		ids      source.IDs
		limiter  = p.opts.newLimiter()
	)
	defer func() {
		// A nomination in flight ends by itself or with ctx; an error that ends the run is told
		// already.
		_ = p.rows.wait()
	}()
	for p.reached < p.run.Bound {
		if err := limiter.wait(ctx); err != nil {
			return err
		}
		through, err := unpolled.read(ctx, p.reached+1)
		if err != nil {
			return err
		}
		if err := p.compareIDs(ctx, unpolled.ranges, through, &ids); err != nil {
			return err
		}
		limiter.read(len(ids.List))
		p.tracker.progress(p)
		if p.saveDue() {
			if err := p.commit(ctx); err != nil {
				return err
			}
		}
	}
	return p.commit(ctx)
}

// unpolled reads which ids were not published and are no longer polled, a few parts of the ledger
// at once. Invariant 7: it takes the same memory however many they are.
type unpolled struct {
	*pass
	parts  []ledger.Chunk
	ranges []source.Range
}

// read reads the ranges of such ids from an id on, and returns through which id they are all there,
// at most the bound of the run.
func (u *unpolled) read(ctx context.Context, from uint64) (through uint64, err error) {
	u.ranges, through = u.ranges[:0], u.run.Bound
	if through, err = u.readParts(ctx, from, through); err != nil {
		return 0, err
	}
	slices.SortFunc(u.ranges, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	u.ranges = source.RangesThrough(source.RangesAbove(source.JoinRanges(u.ranges, 0), from-1), through)
	return through, nil
}

// readParts adds what the ledger says.
func (u *unpolled) readParts(ctx context.Context, from, through uint64) (uint64, error) {
	err := u.retry(ctx, "read the gap ledger", func() (err error) {
		if u.parts, err = u.appendParts(ctx, u.parts[:0], 0, 1); err != nil || len(u.parts) == 0 {
			return err
		}
		u.parts, err = u.appendParts(ctx, u.parts, from, partsAtOnce)
		return err
	})
	if err != nil || len(u.parts) == 0 {
		return through, err
	}
	saved, err := ledger.ReadSaved(u.parts[0].Bytes)
	if err != nil {
		return 0, err
	}
	parts := u.parts[1:]
	if n := len(parts); n == partsAtOnce {
		// What lies between this part and the next one is not known.
		through, parts = min(through, parts[n-1].Key-1), parts[:n-1]
	}
	u.ranges = saved.Wide(u.ranges)
	for _, part := range parts {
		if part.Key == 0 {
			continue
		}
		if u.ranges, err = saved.Unpolled(u.ranges, part); err != nil {
			return 0, err
		}
	}
	return through, nil
}

// appendParts appends up to limit parts of the gap ledger to dst, beginning with the last one at or
// below from.
func (u *unpolled) appendParts(ctx context.Context, dst []ledger.Chunk, from uint64, limit int) ([]ledger.Chunk, error) {
	for part, err := range u.opts.Store.Parts(ctx, u.key(), store.Gaps, from) {
		if err != nil {
			return dst, err
		}
		dst = append(dst, ledger.Chunk{Key: part.Number, Bytes: part.Bytes})
		if limit--; limit == 0 {
			break
		}
	}
	return dst, nil
}

// compareIDs nominates the rows that exist in ranges, and moves reached to through, or to the last
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
	p.reached = through
	if n := len(ids.List); ids.Cut && n > 0 {
		p.reached = ids.List[n-1]
	}
	return nil
}
