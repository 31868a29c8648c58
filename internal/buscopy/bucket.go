package buscopy

import (
	"context"
	"errors"
)

// Errors of a Bucket and of what it holds. Test with errors.Is.
var (
	// ErrMissing is returned where the bucket does not exist and is not made by bridge. The
	// wrapping error says how to make it.
	ErrMissing = errors.New("the topic for copies of the progress is missing")
	// ErrNewer is returned for a copy that a newer version of bridge wrote.
	ErrNewer = errors.New("the copy of the progress was written by a newer version of bridge")
	// ErrDamaged is returned for an entry that cannot be read.
	ErrDamaged = errors.New("the copy of the progress is damaged")
)

// Bucket holds the newest value of each key on the bus. It is safe for concurrent use; of two calls
// about one key the later one must begin when the former one has returned.
//
// All methods wait for a bus that is away until ctx ends, and return its cause then.
type Bucket interface {
	// Entries returns all keys that begin with prefix, and their values: all that was put before
	// the call, as the leader has it.
	Entries(ctx context.Context, prefix string) (map[string][]byte, error)
	// Put sets a value, which must not be empty. It is durable when Put returns nil; after an error
	// it may be set, now or later. A key has letters, digits, '=', '-', '_' and '.'.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes keys, which need not be there.
	Delete(ctx context.Context, keys []string) error
	// Close releases connections, and ends the calls under way.
	Close() error
}
