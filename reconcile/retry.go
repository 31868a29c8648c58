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

// place is where the faults of a run are, for the log.
const place = "reconcile"

// retry tries until it succeeds, fails for good, has failed for as long as the patience, or ctx ends.
func (r *Reconciler) retry(ctx context.Context, what string, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second}
	var since time.Time
	for {
		ended := r.tracker.try()
		err := try()
		ended()
		switch {
		case err == nil:
			r.faults.OK(place)
			return nil
		case ctx.Err() != nil:
			r.faults.Forget(place)
			return context.Cause(ctx)
		case isPermanent(err):
			r.faults.Forget(place)
			return fmt.Errorf("%s: %w", what, err)
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > r.opts.Patience:
			r.faults.Forget(place)
			return fmt.Errorf("%s, in vain for %s: %w", what, r.opts.Patience, err)
		}
		r.faults.Fail(place, fmt.Errorf("%s: %w", what, err))
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
