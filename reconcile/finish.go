package reconcile

import (
	"context"
	"fmt"
	"time"

	"bridge/event"
	"bridge/internal/backoff"
)

// finish forgets what is gone for long, and records how the run ended.
func (p *pass) finish(ctx context.Context) error {
	if p.mode.DryRun {
		p.run.Ended = time.Now()
		return nil
	}
	if err := p.forget(ctx); err != nil {
		return err
	}
	if err := p.verify(ctx); err != nil {
		return err
	}
	if p.guard != "" {
		p.run.Guard = p.guard
	}
	p.run.Ended, p.beyond = time.Now(), false
	// What still waits is dropped: the next run finds it again.
	p.drop = p.run.Absent > 0
	p.run.Absent, p.run.Judged, p.waiting = 0, 0, nil
	if err := p.save(ctx); err != nil {
		return err
	}
	if !p.wish.due {
		return nil
	}
	// That the guard tripped is on record. What another server lacks may be a row that was missed.
	whole := p.opts.Kind != event.Release || p.unjudged == ""
	return p.answer(ctx, p.wish, whole)
}

// answer notes that a run which answers a wish has ended, and tells the owner if it has compared
// the whole table.
func (r *Reconciler) answer(ctx context.Context, w wish, whole bool) error {
	r.answered = w
	if !whole {
		return nil
	}
	if err := r.opts.Owner.Reconciled(ctx, w.number); err != nil {
		return fmt.Errorf("record that %s was reconciled: %w", r.opts.Shard, err)
	}
	return nil
}

// forget drops entities from the view that are absent for long, in the first run of a day.
func (p *pass) forget(ctx context.Context) error {
	if p.opts.Kind == event.Release || !p.newDay {
		return nil
	}
	before := p.run.Clock.Add(-keptGone)
	for {
		var n int
		err := p.retry(ctx, "forget entities that are absent", func() (err error) {
			n, err = p.opts.Store.ForgetAbsent(ctx, p.opts.Stream, before, forgetSlice)
			return err
		})
		if err != nil || n < forgetSlice {
			return err
		}
	}
}

// verify moves verified through to the clock of the run: all that was committed by then, a window
// aside, has been compared with what was published, and the tail has come to where the table ended.
// A busy tail is given the time for that.
func (p *pass) verify(ctx context.Context) error {
	if p.tripped || p.unjudged != "" {
		return nil
	}
	if there, err := p.awaitTail(ctx, 2*p.opts.Window+2*time.Second); err != nil || !there {
		return err
	}
	through := p.run.Clock.Add(-p.opts.Window)
	if p.opts.Kind == event.Release {
		through = through.Add(-sweepSlack)
		// Ids alone do not tell whether a row is the one that was published.
		if _, err := p.opts.Owner.Nominate(ctx, Nomination{Published: true}); err != nil {
			return fmt.Errorf("compare the rows of %s that were published last: %w", p.opts.Shard, err)
		}
	}
	if through.After(p.run.Verified) {
		p.run.Verified = through
	}
	return nil
}

// awaitTail waits until the tail has come to where the table ended when the pass began, for up to
// limit, and reports whether it has.
func (p *pass) awaitTail(ctx context.Context, limit time.Duration) (bool, error) {
	for deadline := time.Now().Add(limit); ; {
		reach, running := p.opts.Owner.Reach()
		if running && reach >= p.highest {
			return true, nil
		}
		if !running || time.Now().After(deadline) {
			return false, nil
		}
		if err := backoff.Pause(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}
