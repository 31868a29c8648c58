package httpapi

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Probe finds out whether the source or the bus can be reached. All requests share one call at a
// time. A request is answered in time even if the call hangs.
type Probe struct {
	Ready func(context.Context) error

	calls singleflight.Group
}

// Do returns the result of the call under way, or of a new one. If ctx ends first, it returns the
// cause.
func (p *Probe) Do(ctx context.Context) error {
	result := p.calls.DoChan("", func() (any, error) {
		// The call serves later requests, too, so it has its own time limit. The end of the process
		// does not wait for it.
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
