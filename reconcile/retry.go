package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/internal/backoff"
	"bridge/source"
)

// ErrNotRunning is returned by Run when the shard does not run, so that nothing can be published.
var ErrNotRunning = errors.New("the shard does not run")

// permanent are the errors that do not heal by trying again.
var permanent = []error{
	source.ErrMissing, source.ErrDenied, source.ErrUnfit,
	checkpoint.ErrCorrupt, checkpoint.ErrForeign, checkpoint.ErrNewer, checkpoint.ErrUnusable, checkpoint.ErrNotFound,
}

func isPermanent(err error) bool {
	for _, p := range permanent {
		if errors.Is(err, p) {
			return true
		}
	}
	return false
}

// retry tries until it succeeds, fails for good, has failed for as long as the patience, or ctx ends.
func (r *Reconciler) retry(ctx context.Context, what string, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second}
	var since time.Time
	for failures := 0; ; failures++ {
		ended := r.tracker.try()
		err := try()
		ended()
		switch {
		case err == nil:
			if !since.IsZero() {
				r.log.Info("reconcile goes on", "after", time.Since(since).Round(time.Millisecond), "failures", failures)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isPermanent(err):
			return fmt.Errorf("%s: %w", what, err)
		case since.IsZero():
			since = time.Now()
			r.log.Warn("reconcile waits", "at", what, "error", err)
		case time.Since(since) > r.opts.Patience:
			return fmt.Errorf("%s, in vain for %s: %w", what, r.opts.Patience, err)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
