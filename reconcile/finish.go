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
	p.run.Absent, p.run.Judged, p.waiting = 0, 0, nil
	return p.save(ctx)
}

// forget drops entities from the view that are gone for long, in the first run of a day.
func (p *pass) forget(ctx context.Context) error {
	if p.opts.Kind == event.Release || !p.newDay {
		return nil
	}
	before := p.run.Clock.Add(-keptGone)
	var from []byte
	for {
		err := p.retry(ctx, "forget entities that are gone", func() error {
			next, err := p.opts.Store.Forget(ctx, p.key(), before, from, forgetSlice)
			if err == nil {
				from = next
			}
			return err
		})
		if err != nil {
			return err
		}
		if from == nil {
			return nil
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
