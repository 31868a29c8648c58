package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/backoff"
	"bridge/source"
)

// ErrNotRunning is returned by Run when the shard does not run, so that nothing can be published.
var ErrNotRunning = errors.New("the shard does not run")

// permanent are the errors that do not heal by trying again.
var permanent = []error{
	source.ErrMissing, source.ErrDenied, source.ErrUnfit,
	store.ErrDamaged, store.ErrForeign, store.ErrNewer, store.ErrClosed,
}

func isPermanent(err error) bool {
	for _, p := range permanent {
		if errors.Is(err, p) {
			return true
		}
	}
	return false
}

// reconciling names the faults of a run in the log.
const reconciling = "reconcile"

// retry calls try until it succeeds, fails for good, or has failed for Options.RetryLimit.
func (r *Reconciler) retry(ctx context.Context, what string, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second, Limit: r.opts.RetryLimit}
	err := pause.Retry(ctx, func() error {
		defer r.tracker.try()()
		return try()
	}, func(err error) bool {
		if isPermanent(err) {
			return false
		}
		r.faults.Fail(reconciling, fmt.Errorf("%s: %w", what, err))
		return true
	})
	switch {
	case err == nil:
		r.faults.OK(reconciling)
		return nil
	case ctx.Err() != nil:
		r.faults.Forget(reconciling)
		return err
	}
	r.faults.Forget(reconciling)
	if !isPermanent(err) {
		what += fmt.Sprintf(", gave up after %s", r.opts.RetryLimit)
	}
	return fmt.Errorf("%s: %w", what, err)
}
