package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"example.org/bridge/internal/inspect"
)

// Errors of a store. Test with errors.Is; the wrapping error names the folder and the remedy.
var (
	// ErrDamaged is returned when a store cannot be read. The next Open sets it aside.
	ErrDamaged = errors.New("store is damaged")
	// ErrSetAside is returned by Open when it has moved a store away that was damaged or has an
	// older format: another Open makes an empty one, which catches up from the bus.
	ErrSetAside = errors.New("store was set aside")
	// ErrOlder is returned when an older version of bridge wrote the store. Open
	// sets it aside.
	ErrOlder = errors.New("store was written by an older version")
	// ErrNewer is returned when a newer version of bridge wrote the store.
	ErrNewer = errors.New("store was written by a newer version")
	// ErrForeign is returned when the store's path has files that are not bridge's.
	ErrForeign = errors.New("not a store of bridge")
	// ErrLocked is returned when another process uses the store.
	ErrLocked = errors.New("store is in use by another process")
	// ErrOutage is returned while the disk takes no writes. The store retries by itself; apply the
	// batch again later.
	ErrOutage = errors.New("store cannot write")
	// ErrClosed is returned by a store that is closed.
	ErrClosed = errors.New("store is closed")
)

// Key names a shard.
type Key struct {
	// Stream is the stream's name, Shard the physical table as the configuration spells it.
	Stream, Shard string
}

// Compare orders keys by stream and shard.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Stream, other.Stream), cmp.Compare(k.Shard, other.Shard))
}

// Store is the local cache of what the bus holds. It is safe for concurrent use.
type Store interface {
	// Load returns the epoch, the registrations and the progress of all shards, as one image.
	Load(ctx context.Context) (Image, error)
	// Progress returns that of one shard, and false if there is none.
	Progress(ctx context.Context, key Key) (p Progress, found bool, err error)
	// Parts returns the parts of one kind of a shard in the order of their numbers, beginning with
	// the last one at or below from, else with the first. They are of one image and are copies. An
	// error ends them.
	Parts(ctx context.Context, key Key, kind Kind, from uint64) iter.Seq2[Part, error]
	// Lookup appends to dst the entry of each entity in a stream's view that asks name, in their
	// order; the zero Entry where there is none. It is fastest in the order of rows.
	Lookup(ctx context.Context, stream string, asks []Ask, dst []Entry) ([]Entry, error)
	// ByRow appends to dst up to limit entries of a shard that have a row above after, in ascending
	// order of their rows and then of their entities: those that are live, tombstones or recorded.
	// An entity whose key was changed in place shares its row with its successor: those of the last
	// row are all there, beyond limit if need be. The entities are copies.
	ByRow(ctx context.Context, key Key, after uint64, limit int, dst []Change) ([]Change, error)
	// Scan returns the entries of a stream's view in any order. They are of one image, however
	// long it takes, and memory is constant. The disk keeps what is replaced meanwhile until the
	// scan ends. An entity is valid until the next one. An error ends them.
	Scan(ctx context.Context, stream string) iter.Seq2[Change, error]
	// Apply makes all changes of a batch or, when it returns an error, none. It keeps no reference
	// to the batch. It may block until the disk has taken what was applied before. The changes are
	// not durable until Sync. Of many changes, batches of about 2,000 cost least, in any order.
	Apply(ctx context.Context, batch *Batch) error
	// ForgetAbsent removes up to limit entities of a shard, or without one of a stream's view, that
	// were found absent before the given time, oldest first, and returns how many: below limit when
	// no more are left. It is applied like a batch.
	ForgetAbsent(ctx context.Context, of Key, before time.Time, limit int) (int, error)
	// Sync makes the applied batches durable. When ctx ends first it returns the cause; what was
	// applied becomes durable all the same, later. While the disk takes no writes it returns
	// ErrOutage.
	Sync(ctx context.Context) error
	// Damaged is closed once damage was seen, also beside all calls; from then on they return
	// ErrDamaged. It is nil where a store cannot be damaged.
	Damaged() <-chan struct{}
	// Close makes the applied batches durable and releases the store. No other method may be
	// running.
	Close() error
}

// Inspection is the result of looking at a store without changing it.
type Inspection struct {
	inspect.Report
	// Shards are the shards whose START was decided, in the order of stream and shard.
	Shards []ShardState
	// Known says that Shards is complete. It is false if the store is damaged or in use.
	Known bool
}

// ShardState is what a store holds of a shard.
type ShardState struct {
	Key      Key
	Progress Progress
	// Meaning is nil where the store does not know it.
	Meaning *Meaning
	// Schema is nil where the store does not know it.
	Schema *Schema
}
