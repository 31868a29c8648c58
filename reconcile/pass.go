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
	// unjudged says why absence is not judged, empty where it is.
	unjudged string
	// highest is the highest id of the table when the pass began, top when it was read last.
	highest, top uint64
	// reached is the id up to which table and view have been compared, saved when that was last
	// saved.
	reached uint64
	saved   time.Time
	// began is where this pass began, base the id before the first row of the table, as far as is
	// known.
	began, base uint64
	// spent says that the table has been read to the bound.
	spent bool

	rows nominator
	view viewCursor
	// candidates are live and soft-deleted entities without a row under the id that the view knows,
	// to be looked for by key.
	candidates []checkpoint.Entity
	bytes      int
	// waiting are those that were not found and are not saved yet; gone counts the live ones of the
	// run.
	waiting [][]byte
	gone    uint64
	// beyond says that the guard trips whatever the rest of the view brings.
	beyond bool

	// page is for reads by key and by id.
	page  source.Page
	dry   dryRun
	guard string
	// tripped says that the guard tripped in this run.
	tripped bool
}

// begin finds out where to start, and what may be judged.
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
		// Invariant 5: who agreed to what was seen then has not agreed to whatever is seen much
		// later.
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

// bound returns the highest id that is judged: what the tail has passed. A run that may publish
// deletes gives the tail the time to read a table whose ids began again, so that little has to be
// looked for by key.
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

// readServer reads a row for the clock, the server and the highest id, and asks whether absence may
// be judged there.
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

// same notes which server answered. Invariant 5: what one server has not and another has is no
// absence.
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

// count adds what the owner published.
func (p *pass) count(v Verdict) {
	p.run.Added += v.Added
	p.run.Modified += v.Modified
	p.run.Deleted += v.Deleted
	p.run.Missed += v.Missed
	p.tracker.count(v, p.mode)
}

// commit has the owner decide about everything gathered up to reached, and saves how far the run
// has come.
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

// save saves the run. Everything up to reached has been judged or waits.
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

// due reports whether the progress is to be saved again.
func (p *pass) due() bool { return time.Since(p.saved) >= p.opts.SaveEvery }

// reported makes the report of the pass, which ended with err.
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
