package view

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"bridge/checkpoint/store"
	"bridge/internal/texts"
)

// View is what was published last of each entity of a stream. It is safe for concurrent use.
type View struct {
	stream string
	store  store.Store
	scope  scope
	// changed counts the changes of entities, by their hash: see the package's order of locks.
	seed    maphash.Seed
	changed [1 << 14]atomic.Uint32

	mu sync.Mutex
	// records are those of the entities that are claimed or reserved, by what is stored.
	records map[string]*record
	names   texts.Texts
	// begun are the claims of each shard that have not ended, oldest first.
	begun   map[string][]*Claims
	numbers uint64
	// handled are rows that lost against another row of their key.
	handled handled
	// movers learns that entities are free, and that moves have ended; nil where there is none.
	movers *Movers
	// The rest is used again and again.
	freeRecords []*record
	freeClaims  []*Claims
	commits     commits
	// registrations are asked under mu.
	registrations registrations
}

// New returns the view of a stream whose tables share their entities. inForce returns the number
// of the registration in force for that with a number (rule 21).
func New(stream string, s store.Store, inForce func(uint32) uint32) *View {
	return &View{
		stream: stream, store: s, registrations: registrations{inForce: inForce}, seed: maphash.MakeSeed(),
		records: make(map[string]*record), begun: make(map[string][]*Claims),
	}
}

// NewByTable returns the view of a stream whose entities belong to their table: one key in two
// tables is two entities, and none ever moves.
func NewByTable(stream string, s store.Store, inForce func(uint32) uint32) *View {
	v := New(stream, s, inForce)
	v.scope.byTable = true
	return v
}

// ByRow appends to dst up to limit entities of a shard with a row above after, in the order of
// their rows, as the store has them: nothing that is in flight.
func (v *View) ByRow(ctx context.Context, shard string, after uint64, limit int, dst []store.Change) ([]store.Change, error) {
	n := len(dst)
	dst, err := v.store.ByRow(ctx, store.Key{Stream: v.stream, Shard: shard}, after, limit, dst)
	v.lock()
	defer v.mu.Unlock()
	for i := n; i < len(dst); i++ {
		dst[i].Entity, dst[i].Entry = v.scope.entity(dst[i].Entity), v.registrations.renewed(dst[i].Entry)
	}
	return dst, err
}

// hash returns that of what is stored.
func (v *View) hash(stored []byte) uint64 { return maphash.Bytes(v.seed, stored) }

// count returns how often entities with a hash have changed.
func (v *View) count(hash uint64) *atomic.Uint32 {
	return &v.changed[hash%uint64(len(v.changed))]
}

// lock locks the view. What was asked under the former lock may be another now.
func (v *View) lock() {
	v.mu.Lock()
	clear(v.registrations.known)
}
