package stream

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/texts"
)

// View holds the last published state of each entity of a stream. It is safe for concurrent use.
type View struct {
	stream string
	store  store.Store
	scope  scope
	// inForce returns the number of the registration in force for that with a number.
	inForce func(uint32) uint32
	// changed counts the changes of entities, by their hash, as they are installed: entries that
	// were looked up before are looked up again.
	seed    maphash.Seed
	changed [1 << 14]atomic.Uint32

	// mu guards memory alone, that of the movers, too: nothing is waited for under it, but see
	// Prepared.lock.
	mu sync.Mutex
	// records has an entry for each claimed or reserved entity, by its stored name.
	records map[string]*record
	names   texts.Texts
	// begun are the claims of each shard that have not ended.
	begun map[string]*Claims
	// handled are the hashes of duplicate rows that lost.
	handled map[uint64]struct{}
	// movers learns that entities are free, and that moves have ended; nil if there is none.
	movers *Movers
	// The rest is used again and again.
	freeRecords []*record
	freeClaims  []*Claims
	commits     commits
}

// NewView returns the view of a stream whose tables share their entities. inForce returns the
// number of the registration in force for that with a number (rule 21).
func NewView(stream string, s store.Store, inForce func(uint32) uint32) *View {
	return &View{
		stream: stream, store: s, inForce: inForce, seed: maphash.MakeSeed(),
		records: make(map[string]*record), begun: make(map[string]*Claims), handled: make(map[uint64]struct{}),
	}
}

// NewViewByTable returns the view of a stream whose entities belong to their table: one key in two
// tables is two entities, and none ever moves.
func NewViewByTable(stream string, s store.Store, inForce func(uint32) uint32) *View {
	v := NewView(stream, s, inForce)
	v.scope.byTable = true
	return v
}

// ByRow appends to dst up to limit entities of a shard with a row above after, in the order of
// their rows, as the store has them: nothing that is in flight.
func (v *View) ByRow(ctx context.Context, shard string, after uint64, limit int, dst []store.Change) ([]store.Change, error) {
	n := len(dst)
	dst, err := v.store.ByRow(ctx, store.Key{Stream: v.stream, Shard: shard}, after, limit, dst)
	for i := n; i < len(dst); i++ {
		dst[i].Entity, dst[i].Entry = v.scope.entity(dst[i].Entity), v.renewed(dst[i].Entry)
	}
	return dst, err
}

func (v *View) hash(stored []byte) uint64 { return maphash.Bytes(v.seed, stored) }

func (v *View) count(hash uint64) *atomic.Uint32 {
	return &v.changed[hash%uint64(len(v.changed))]
}

type scope struct{ byTable bool }

// emptyKey is the stored name of the empty key. Keys hold no control characters.
const emptyKey = 0

// append appends what the store calls an entity.
func (s scope) append(dst []byte, shard string, entity []byte) []byte {
	if s.byTable {
		dst = append(binary.AppendUvarint(dst, uint64(len(shard))), shard...)
	}
	if len(entity) == 0 {
		return append(dst, emptyKey)
	}
	return append(dst, entity...)
}

// entity returns the entity of a stored name, in the memory of the name.
func (s scope) entity(stored []byte) []byte {
	if s.byTable {
		size, n := binary.Uvarint(stored)
		if n <= 0 || size > uint64(len(stored)-n) {
			return nil
		}
		stored = stored[n+int(size):]
	}
	if len(stored) == 1 && stored[0] == emptyKey {
		return stored[:0]
	}
	return stored
}

// renewed returns an entry as it is now: disputed if its registration is not in force (rule 21).
func (v *View) renewed(e store.Entry) store.Entry {
	if e.At.TP == 0 {
		return e
	}
	switch now := v.inForce(e.At.TP); now {
	case e.At.TP:
	case 0:
		// The stream does not read that TP any more: any message replaces the entry.
		e.At, e.Disputed = store.At{}, true
	default:
		e = Renewed(e, now)
	}
	return e
}

// Prepared is what the store has of entities. It is used again and again.
type Prepared struct {
	// asks name what is stored of the entities, hashes are theirs, before the counts of their
	// changes before the lookup. arena holds names that are not the caller's.
	asks    []store.Ask
	hashes  []uint64
	before  []uint32
	arena   []byte
	entries []store.Entry
}

const keepArena = 1 << 20

var prepared = sync.Pool{New: func() any { return new(Prepared) }}

func (l *Prepared) clear() {
	clear(l.asks)
	l.asks = l.asks[:0]
	if cap(l.arena) > keepArena {
		l.arena = nil
	}
}

func (l *Prepared) begin(n int) {
	l.clear()
	l.arena, l.hashes, l.before = l.arena[:0], l.hashes[:0], l.before[:0]
	l.asks = slices.Grow(l.asks, n)
}

// add adds an entity of a shard, which a row of it may have; 0 for none. It is the caller's memory
// until run returns, and in decisions until they are made.
func (l *Prepared) add(v *View, shard string, row uint64, entity []byte) {
	key := entity
	if v.scope.byTable || len(entity) == 0 {
		// The keys before keep their part of a former arena.
		from := len(l.arena)
		l.arena = v.scope.append(l.arena, shard, entity)
		key = l.arena[from:len(l.arena):len(l.arena)]
	}
	ask := store.Ask{Entity: key}
	if row != 0 {
		ask.Shard, ask.Row = shard, row
	}
	l.asks = append(l.asks, ask)
}

// findEntities looks up what the store has of entities of which no row is known.
func (l *Prepared) findEntities(ctx context.Context, v *View, shard string, entities [][]byte) error {
	l.begin(len(entities))
	for _, entity := range entities {
		l.add(v, shard, 0, entity)
	}
	return l.run(ctx, v)
}

func (l *Prepared) key(i int) []byte { return l.asks[i].Entity }

// run looks all entities up. Its caller does not hold the view's lock.
func (l *Prepared) run(ctx context.Context, v *View) error {
	for i := range l.asks {
		hash := v.hash(l.key(i))
		l.hashes = append(l.hashes, hash)
		// Before the entry is read: a change that this count lacks may be missing in it.
		l.before = append(l.before, v.count(hash).Load())
	}
	var err error
	l.entries, err = v.store.Lookup(ctx, v.stream, l.asks, l.entries[:0])
	return err
}

// repeat looks up the entries again that have changed since run, or since the last repeat.
func (l *Prepared) repeat(ctx context.Context, v *View) (repeated bool, err error) {
	var again []int
	var asks []store.Ask
	for i := range l.asks {
		if now := v.count(l.hashes[i]).Load(); now != l.before[i] {
			l.before[i] = now
			again, asks = append(again, i), append(asks, l.asks[i])
		}
	}
	if len(again) == 0 {
		return false, nil
	}
	found, err := v.store.Lookup(ctx, v.stream, asks, nil)
	if err != nil {
		return true, err
	}
	for n, i := range again {
		l.entries[i] = found[n]
	}
	return true, nil
}

// lockTries bounds how often entries are looked up again before the lock is taken all the same.
const lockTries = 20

// lock locks the view when the entries are those of the store: under the lock none changes. Where
// others change them faster than they are looked up, the last look is under the lock.
func (l *Prepared) lock(ctx context.Context, v *View) error {
	for tries := 1; ; tries++ {
		if repeated, err := l.repeat(ctx, v); err != nil {
			return err
		} else if repeated && tries < lockTries {
			continue
		}
		v.mu.Lock()
		switch {
		case !l.changed(v):
			return nil
		case tries >= lockTries:
			return l.repeatLocked(ctx, v)
		}
		v.mu.Unlock()
	}
}

// repeatLocked repeats the lookup under the lock, which stays with the caller where it succeeds.
func (l *Prepared) repeatLocked(ctx context.Context, v *View) error {
	locked := false
	defer func() {
		if !locked {
			v.mu.Unlock()
		}
	}()
	_, err := l.repeat(ctx, v)
	locked = err == nil
	return err
}

func (l *Prepared) changed(v *View) bool {
	for i, hash := range l.hashes {
		if v.count(hash).Load() != l.before[i] {
			return true
		}
	}
	return false
}
