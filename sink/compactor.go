package sink

import (
	"context"
	"errors"
	"time"
)

// ErrHidden is returned when the login may not see how a destination is configured. The wrapping
// error names the right that is missing.
var ErrHidden = errors.New("the configuration of the destination does not show")

// Compaction says what a destination keeps.
type Compaction struct {
	// On: the last message of each key alone, and of one without a body not even that.
	On bool
	// Tombstones is how long a message without a body stays at least, below 0: for ever.
	Tombstones time.Duration
}

// Compactor is a Sink whose destinations may be compacted.
type Compactor interface {
	// Compaction returns that of a destination. It waits for a bus that is away and for a
	// destination that does not exist, as long as the implementation's options say, at first for
	// ever. Other errors are ErrHidden, with which Tombstones is the default of the bus, ErrClosed,
	// and the cause of ctx.
	Compaction(ctx context.Context, destination string) (Compaction, error)
}
