package pebble

import (
	"context"
	"errors"

	"bridge/checkpoint/store"
)

// OpenOrReplace opens the store as Open does, and where that sets one aside, logs it and opens an
// empty one, which catches up from the bus.
func OpenOrReplace(ctx context.Context, path string, opts Options) (*Store, error) {
	opts.setDefaults()
	s, err := Open(ctx, path, opts)
	if errors.Is(err, store.ErrSetAside) {
		opts.Log.WarnContext(ctx, "begins with an empty store and catches up from the bus", "path", path, "reason", err)
		s, err = Open(ctx, path, opts)
	}
	return s, err
}
