package checkpoint

import (
	"context"
	"time"

	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// Fate is what was last published of an entity: that it lives, or how it ended.
type Fate uint8

// The fates of an entity.
const (
	// Unknown: the view has no entry.
	Unknown Fate = iota
	// Live: its row is there.
	Live
	// Tombstone: its row says that it is deleted, and its Deleted event is out.
	Tombstone
	// Gone: it has no row. What was published last is remembered for a while, so that an entity
	// that comes back follows on it.
	Gone
)

// Known is the entry of one entity in a view.
type Known struct {
	// Row is the id of the row whose state was published last.
	Row uint64
	// State is the digest that was published last; zero once the entity is gone.
	State [16]byte
	// Event is the meta.id of the entity's last event, the 16 bytes of the UUID; zero when none was
	// published (START=latest).
	Event [16]byte
	// Fate says whether the row was there.
	Fate Fate
	// Since is when the entity was found gone, by the database's clock to the second; zero for the
	// other fates.
	Since time.Time
}

// MaxEntity is the length of the longest entity that a view holds, in bytes.
const MaxEntity = 32_000

// Change replaces the entry of an entity in a view. The zero Known removes it.
type Change struct {
	// Entity is the injective encoding of the key columns (event.Event.Entity), 1 to MaxEntity
	// bytes.
	Entity []byte
	Known  Known
}

// Journal is a batch that is saved before it is published, and published again unchanged after a
// crash.
type Journal struct {
	// Number tells the journals of a shard apart and says in which order they are sent.
	Number uint64
	// Messages are the batch, in order.
	Messages []sink.Message
	// After is the state to save once all of Messages are acknowledged. It has no offsets and no
	// journal.
	After State
}

// Entity is an entry of a view with its entity.
type Entity struct {
	Row    uint64
	State  [16]byte
	Fate   Fate
	Entity []byte
}

// Views reads the views of capability shards. Save changes them. It is safe for concurrent use.
type Views interface {
	// Lookup appends to dst what the view of a shard holds about each of entities, in their order;
	// a zero Known where it holds nothing. It is fastest when entities are in the order of their
	// bytes.
	Lookup(ctx context.Context, key Key, entities [][]byte, dst []Known) ([]Known, error)
	// ByRow appends to dst up to limit live and soft-deleted entities of a shard with a row above
	// after, in ascending order of their rows and then of their bytes. An entity whose key was
	// changed in place shares its row with its successor: those of the last row are all there,
	// beyond limit if need be. The entities are copies.
	ByRow(ctx context.Context, key Key, after uint64, limit int, dst []Entity) ([]Entity, error)
	// Forget removes entities that were found gone before the given time, of up to limit entries it
	// looks at from the entity from on, and returns where to go on; nil at the end.
	Forget(ctx context.Context, key Key, before time.Time, from []byte, limit int) (next []byte, err error)
	// LedgerParts appends to dst up to limit parts of a shard's gap ledger in the order of their
	// keys, from the last one with a key at or below from; the first is its head. The parts are
	// copies.
	LedgerParts(ctx context.Context, key Key, from uint64, limit int, dst []ledger.Chunk) ([]ledger.Chunk, error)
	// GivenUp appends to dst up to limit ranges of ids that an earlier version gave up and that
	// were not published since, from the range that holds or follows from. Since then the ledger
	// keeps them itself.
	GivenUp(ctx context.Context, key Key, from uint64, limit int, dst []source.Range) ([]source.Range, error)
}
