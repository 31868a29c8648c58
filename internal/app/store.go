package app

import (
	"context"
	"log/slog"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/pebble"
)

// lockWait is how long a store may be in use by somebody who only looks into it.
const lockWait = time.Second

// OpenStore opens the store in the folder at path, and makes it where there is none. One that
// cannot be used is set aside: the new one catches up from the bus.
func OpenStore(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		// Not s: a nil pointer in an interface is not nil.
		return nil, err
	}
	return s, nil
}

// openToRead opens the store in the folder at path without changing anything.
func openToRead(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	s, err := pebble.OpenReadOnly(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		return nil, err
	}
	return s, nil
}
