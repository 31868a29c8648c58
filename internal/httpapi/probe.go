package httpapi

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Probe finds out whether the source or the bus can be reached. Only one call is under way at a
// time, however many requests wait for it, and a request is answered in its time even if nothing
// comes back.
type Probe struct {
	Ready func(context.Context) error

	calls singleflight.Group
}

// Do returns the result of the call under way, or else of one of its own; the cause of ctx if that
// ends first.
func (p *Probe) Do(ctx context.Context) error {
	result := p.calls.DoChan("", func() (any, error) {
		// It serves all requests that come meanwhile, so it ends by its own time limit; the end of
		// the process does not wait for it.
		ctx, cancel := context.WithTimeoutCause(context.Background(), readyTimeout, errReadyTimeout)
		defer cancel()
		return nil, p.Ready(ctx)
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
