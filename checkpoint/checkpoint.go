package checkpoint

import (
	"context"
	"errors"
	"time"

	"bridge/sink"
	"bridge/source"
)

// Errors of a store. Test with errors.Is; the wrapping error names the file and the remedy.
var (
	// ErrNotFound is returned when a shard has no state yet.
	ErrNotFound = errors.New("no checkpoint")
	// ErrCorrupt is returned when a store or a value in it is damaged.
	ErrCorrupt = errors.New("checkpoint is damaged")
	// ErrForeign is returned when a store was not made by bridge.
	ErrForeign = errors.New("not a checkpoint of bridge")
	// ErrNewer is returned when a newer version of bridge wrote the store.
	ErrNewer = errors.New("checkpoint was written by a newer version")
	// ErrUnusable is returned when a store that was open can no longer be trusted: only a restart of the process helps.
	ErrUnusable = errors.New("checkpoint cannot be used until bridge is restarted")
	// ErrLocked is returned when another process uses the store.
	ErrLocked = errors.New("checkpoint is in use by another process")
)

// Key names the state of one shard.
type Key struct {
	// Stream is the stream's name.
	Stream string
	// Shard is the physical table as the configuration spells it.
	Shard string
}

// State is what is saved of one shard.
type State struct {
	// Position is how far the shard has been published.
	Position source.Position
	// Ledger holds the parts of the shard's gap ledger, in the order of their keys: when saved, those that changed since
	// the save before; when loaded by Load, all of them. List leaves them out.
	Ledger []source.Chunk
	// LedgerAnew drops the parts that were saved before Ledger is applied.
	LedgerAnew bool
	// Marks say where the bus ended when it acknowledged what lies behind the position, one a place.
	Marks []sink.Mark
	// Saved is when the state was as it is saved, by the host's clock: a batch that it waited for came after. Gaps go on
	// ageing from there.
	Saved time.Time
	// Cursor is the place of the second cursor.
	Cursor source.Cursor
	// Snapshot holds the ids that START=latest still has to record in the view; zero: none.
	Snapshot source.Range
	// View holds the entries of the view that changed since the save before; of several about one entity the last one holds.
	// Loaded states leave it empty.
	View []Change
	// Given holds the ids that the ledger gave up since the save before, Found those of them that were published since; they
	// are added to and removed from what Views.GivenUp returns, Given first. Ranges may overlap. Loaded states leave both empty.
	Given, Found []source.Range
	// Journals are what is about to be published, in ascending order of their numbers. A save removes those that were there,
	// but for the ones numbered Keep and above; Keep 0 removes all. Then it adds its own, each in the place of one with its number. Loaded
	// states leave Keep 0, List leaves the journals out.
	Journals []*Journal
	Keep     uint64
}

// Entry is a state with its key.
type Entry struct {
	Key   Key
	State State
}

// Store keeps states. It is safe for concurrent use; saves of several shards may share one write to the disk.
type Store interface {
	Views
	Runs
	// Load returns the state of a shard, or ErrNotFound.
	Load(ctx context.Context, key Key) (State, error)
	// Save replaces the state of a shard, and of its ledger, its view and its journals the parts that state names. When it returns nil the state
	// is durable, and all of it is seen at once; otherwise the former one holds. It refuses a key without names and a state
	// that does not pass State.Check.
	Save(ctx context.Context, key Key, state State) error
	// Rewind removes from a shard what speaks of rows above id: the entries of its view with such a row (the gone ones too), its
	// journals, and the given-up ids above id. A kill, or an error, may leave a part of it done: call it again. A shard that is
	// unknown is no error.
	Rewind(ctx context.Context, key Key, id uint64) error
	// List returns all states in the order of stream and shard.
	List(ctx context.Context) ([]Entry, error)
	// Delete removes all that is kept of the shards of a stream and returns how many states there were.
	Delete(ctx context.Context, stream string) (int, error)
}
