package reconcile

import (
	"context"
	"time"

	"bridge/source"
)

const (
	// givenUpAtOnce is how many ranges of given-up ids are looked at together.
	givenUpAtOnce = 200
	// sweepSlack is how long a row of a release stream may take from its commit until the sweep over cold gaps has found it.
	sweepSlack = 2 * time.Minute
)

// release looks for rows under ids that the ledger gave up: they are all that a release stream can have missed. Rows that are
// gone are no event.
func (p *pass) release(ctx context.Context) error {
	var (
		ranges []source.Range
		ids    source.IDs
		speed  = pace{rate: p.opts.Rate}
	)
	defer func() {
		// A nomination in flight ends by itself or with ctx; an error that ends the run is told already.
		_ = p.rows.wait()
	}()
	for p.reached < p.run.Bound {
		err := p.retry(ctx, "read the ids that were given up", func() (err error) {
			ranges, err = p.opts.Store.GivenUp(ctx, p.key(), p.reached+1, givenUpAtOnce, ranges[:0])
			return err
		})
		if err != nil {
			return err
		}
		through := p.run.Bound
		if len(ranges) == givenUpAtOnce {
			through = min(through, ranges[len(ranges)-1].Last)
		}
		ranges = between(ranges, p.reached, through)
		if err := p.lookForIDs(ctx, ranges, through, &ids); err != nil {
			return err
		}
		speed.took(len(ids.List))
		p.tracker.progress(p)
		if p.due() {
			if err := p.settle(ctx); err != nil {
				return err
			}
		}
		if err := speed.wait(ctx); err != nil {
			return err
		}
	}
	return p.settle(ctx)
}

// lookForIDs nominates the rows that exist in ranges, and moves reached to through, or to the last id that was read where there
// are too many.
func (p *pass) lookForIDs(ctx context.Context, ranges []source.Range, through uint64, ids *source.IDs) error {
	ids.List, ids.Cut = ids.List[:0], false
	if len(ranges) > 0 {
		err := p.ask(ctx, "read ids of "+p.opts.Shard, func() error {
			return p.opts.Source.ReadIDs(ctx, ranges, false, MaxNominated, ids)
		})
		if err != nil {
			return err
		}
		p.same(ids.Server)
	}
	for _, id := range ids.List {
		p.run.Scanned++
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

// between returns what of ranges lies above after and not above through. It overwrites ranges.
func between(ranges []source.Range, after, through uint64) []source.Range {
	kept := ranges[:0]
	for _, r := range ranges {
		r.First, r.Last = max(r.First, after+1), min(r.Last, through)
		if r.First <= r.Last {
			kept = append(kept, r)
		}
	}
	return kept
}
