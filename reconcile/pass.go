package reconcile

import (
	"context"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/source"
)

// pass is one call of Run. It serves one goroutine.
type pass struct {
	*Reconciler
	mode Mode
	run  checkpoint.Run
	// newDay says that the run before began on another day, in UTC, than this pass.
	newDay bool
	// resumed says that run was on record and had not ended.
	resumed bool
	// unjudged says why absence is not judged; empty if it is.
	unjudged string
	// highest is the highest id of the table when the pass began, top when it was last read.
	highest, top uint64
	// reached is the id up to which table and view are compared; saved is when it was last saved.
	reached uint64
	saved   time.Time
	// began is the id at which this pass began. base is the id before the first row of the table; 0
	// if that is not known.
	began, base uint64
	// spent says that the table has been read to the bound.
	spent bool

	rows nominator
	view viewCursor
	// candidates are live and soft-deleted entities whose row has gone or changed its id. They are
	// looked up by key.
	candidates []checkpoint.Entity
	bytes      int
	// waiting are candidates without a row that are not saved yet. gone counts the live ones of the
	// run.
	waiting [][]byte
	gone    uint64
	// beyond says that the guard will trip whatever is still to be read.
	beyond bool

	// page is for reads by key and by id.
	page  source.Page
	dry   dryRun
	guard string
	// tripped says that the guard tripped in this run.
	tripped bool
}

// begin finds out where to start and what may be judged.
func (p *pass) begin(ctx context.Context) error {
	last, err := p.lastRun(ctx)
	if err != nil {
		return err
	}
	if _, running := p.opts.Owner.Reach(); !running {
		return fmt.Errorf("reconcile %s: %w", p.opts.Shard, ErrNotRunning)
	}
	if err := p.readServer(ctx); err != nil {
		return err
	}
	p.highest = p.page.MaxID
	reach, err := p.bound(ctx)
	if err != nil {
		return err
	}
	p.newDay = !last.Started.IsZero() && !sameDay(last.Started, time.Now())
	p.resumed = !p.mode.DryRun && !last.Started.IsZero() && last.Ended.IsZero()
	if p.resumed {
		// Invariant 5: agreement to deletes does not hold for a table that is read much later.
		last.Allowed = p.mode.AllowDeletes || last.Allowed && time.Since(last.Started) < allowedFor
		last.Bound = min(last.Bound, reach)
		p.run = last
		p.same(p.page.Server)
	} else {
		p.run = checkpoint.Run{
			Started: time.Now(), Clock: p.page.Now, Bound: reach, Server: p.page.Server,
			Allowed: p.mode.AllowDeletes, Guard: last.Guard, Verified: last.Verified,
		}
	}
	if p.unjudged != "" {
		// A run that is resumed must not forget it.
		p.run.Server = ""
	}
	p.began, p.reached, p.saved, p.top = p.run.After, p.run.After, time.Now(), p.page.MaxID
	p.view = viewCursor{reconciler: p.Reconciler, after: p.run.After}
	p.rows = nominator{owner: p.opts.Owner, timeout: p.opts.RetryLimit, count: p.count}
	if p.mode.DryRun {
		p.dry.pass = p
		p.rows.owner, p.rows.alone = &p.dry, true
	}
	if err := p.recount(ctx); err != nil {
		return err
	}
	if !p.resumed && len(p.page.Rows) > 0 {
		p.base = p.page.Rows[0].ID - 1
	}
	p.tracker.progress(p)
	return p.save(ctx)
}

// sameDay reports whether a and b are on the same day in UTC.
func sameDay(a, b time.Time) bool {
	const day = 24 * time.Hour
	return a.UTC().Truncate(day).Equal(b.UTC().Truncate(day))
}

// bound returns the highest id that is judged: the saved position. If deletes are allowed, it first
// waits for the tail to read a table whose ids began again, so that few entities have to be looked
// up by key.
func (p *pass) bound(ctx context.Context) (uint64, error) {
	if p.mode.AllowDeletes && !p.mode.DryRun {
		if _, err := p.awaitTail(ctx, p.opts.RetryLimit); err != nil {
			return 0, err
		}
	}
	reach, running := p.opts.Owner.Reach()
	if !running {
		return 0, fmt.Errorf("reconcile %s: %w", p.opts.Shard, ErrNotRunning)
	}
	return reach, nil
}

// readServer reads one row for the clock, the server and the highest id, and finds out whether
// absence may be judged on this server.
func (p *pass) readServer(ctx context.Context) error {
	if err := p.read(ctx, source.Query{Limit: 1, MaxBytes: 1}, &p.page); err != nil {
		return err
	}
	if p.opts.Kind == event.Release {
		return nil
	}
	if err := bind(p.opts.Encoder, p.page.Columns); err != nil {
		return err
	}
	var traits source.Traits
	err := p.query(ctx, "ask about "+p.opts.Shard, func() (err error) {
		traits, err = p.opts.Source.Traits(ctx)
		return err
	})
	if err == nil && !traits.Writer && p.unjudged == "" {
		p.unjudged = "the server does not take the writes, as far as can be told: " + traits.WriterWhy
	}
	return err
}

// same notes which server answered. Invariant 5: a row that only one of two servers has is not
// absent.
func (p *pass) same(server string) {
	if server == p.run.Server {
		return
	}
	if p.unjudged == "" {
		p.unjudged = fmt.Sprintf("another server answered during the run: %q after %q", server, p.run.Server)
	}
	// A run that is resumed must not forget it.
	p.run.Server = ""
}

// count adds the events that the owner published.
func (p *pass) count(v Verdict) {
	p.run.Added += v.Added
	p.run.Modified += v.Modified
	p.run.Deleted += v.Deleted
	p.run.Missed += v.Missed
	p.tracker.count(v, p.mode)
}

// commit has the owner decide about all nominations up to reached, and saves the progress of the
// run.
func (p *pass) commit(ctx context.Context) error {
	if err := p.rows.flush(ctx); err != nil {
		return err
	}
	if err := p.findCandidates(ctx); err != nil {
		return err
	}
	p.tracker.progress(p)
	return p.save(ctx)
}

// save saves the run. Every difference up to reached has been judged, or waits in the store.
func (p *pass) save(ctx context.Context) error {
	if p.mode.DryRun || p.beyond {
		return nil
	}
	p.run.After = p.reached
	p.run.Absent += uint64(len(p.waiting))
	err := p.retry(ctx, "save the reconcile run", func() error { return p.opts.Store.SaveRun(ctx, p.key(), p.run, p.waiting) })
	clear(p.waiting)
	p.waiting, p.saved = p.waiting[:0], time.Now()
	return err
}

// due reports whether it is time to save the progress.
func (p *pass) due() bool { return time.Since(p.saved) >= p.opts.SaveEvery }

// reported returns the report of the pass, which ended with err.
func (p *pass) reported(err error) Report {
	report := Report{
		Stream: p.opts.Stream, Shard: p.opts.Shard,
		Started: p.run.Started, Ended: p.run.Ended,
		DryRun: p.mode.DryRun, Resumed: p.resumed,
		Scanned: p.run.Scanned, Entities: p.run.Entities,
		Verdict:     Verdict{Added: p.run.Added, Modified: p.run.Modified, Deleted: p.run.Deleted, Missed: p.run.Missed},
		Gone:        p.gone,
		Unjudged:    p.unjudged,
		Verified:    p.run.Verified,
		Differences: p.dry.differences,
	}
	if p.tripped {
		report.Guard = p.guard
	}
	if err != nil {
		report.Ended = time.Time{}
	}
	return report
}
