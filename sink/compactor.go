package sink

import (
	"context"
	"errors"
)

// ErrHidden is returned when the login may not see how a destination is configured. The wrapping
// error names the right that is missing.
var ErrHidden = errors.New("the configuration of the destination does not show")

// Compactor is a Sink whose destinations may keep the last message of each key alone.
type Compactor interface {
	// Compacted reports whether a destination does. It waits for a bus that is away and for a
	// destination that does not exist, as long as the implementation's options say, at first for
	// ever. Other errors are ErrHidden, ErrClosed, and the cause of ctx.
	Compacted(ctx context.Context, destination string) (bool, error)
}
