package checkpoint

import (
	"context"
	"errors"
	"slices"
	"time"

	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
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
	// ErrUnusable is returned when a store that was open can no longer be trusted: only a restart
	// of the process helps.
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
	// Position is the id up to which the shard has been published, with its gaps.
	Position ledger.Position
	// Ledger holds the parts of the shard's gap ledger, in the order of their keys: when saved,
	// those that changed since the save before; when loaded by Load, the head alone, which has the
	// key 0: Views.LedgerParts reads the others. List leaves it out.
	Ledger []ledger.Chunk
	// ReplaceLedger drops the parts that were saved before Ledger is applied.
	ReplaceLedger bool
	// Published holds the parts of the list of rows that were published last, as Ledger holds those
	// of the ledger; ReplacePublished drops the parts that were saved before Published is applied.
	Published        []ledger.Chunk
	ReplacePublished bool
	// Meaning is the configuration that the state was made with. When saved, nil leaves the saved
	// one as it is and the zero Meaning removes it; when loaded, nil says that there is none: an
	// older version made the checkpoint, or a person agreed to any other.
	Meaning *Meaning
	// Offsets are the ends of the topic-partitions or streams when they acknowledged the rows up to
	// the position.
	Offsets []sink.Offset
	// Saved is when the state was as it is saved, by the host's clock: a batch that it waited for
	// came after. Gaps go on ageing from there.
	Saved time.Time
	// Cursor is the position of the second cursor.
	Cursor source.Cursor
	// Snapshot holds the ids that START=latest still has to record in the view; zero: none.
	Snapshot source.Range
	// View holds the entries of the view that changed since the save before; of several about one
	// entity the last one holds. Loaded states leave it empty.
	View []Change
	// Given holds ids that the ledger gave up, which only journals of an earlier version do, Found
	// those of them that were published since; they are added to and removed from what
	// Views.GivenUp returns, Given first. Ranges may overlap. Loaded states leave both empty.
	Given, Found []source.Range
	// Journals are what is about to be published, in ascending order of their numbers. A save
	// removes those that were there, but for the ones numbered Keep and above; Keep 0 removes all.
	// Then it adds its own; each replaces the one with its number. Loaded states leave Keep 0, List
	// leaves the journals out.
	Journals []*Journal
	Keep     uint64
}

// Entry is a state with its key.
type Entry struct {
	Key   Key
	State State
}

// Store keeps states. It is safe for concurrent use; saves of several shards may share one write to
// the disk.
type Store interface {
	Views
	Runs
	// Load returns the state of a shard, or ErrNotFound.
	Load(ctx context.Context, key Key) (State, error)
	// Save replaces the state of a shard, and of its ledger, its view and its journals the parts
	// that state names. When it returns nil the state is durable, and all of it is seen at once;
	// otherwise the former one holds. It refuses a key without names and a state that does not pass
	// State.Check.
	Save(ctx context.Context, key Key, state State) error
	// Rewind removes from a shard what speaks of rows above id: the entries of its view with such a
	// row (the gone ones too), its journals, and the given-up ids above id. A kill, or an error,
	// may leave a part of it done: call it again. A shard that is unknown is no error.
	Rewind(ctx context.Context, key Key, id uint64) error
	// List returns all states in the order of stream and shard.
	List(ctx context.Context) ([]Entry, error)
	// Delete removes all that is kept of the shards of a stream and returns how many states there
	// were.
	Delete(ctx context.Context, stream string) (int, error)
}

// StreamsOf returns the streams of entries, each once, in their order.
func StreamsOf(entries []Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Key.Stream)
	}
	return slices.Compact(names)
}
