package view

import (
	"context"
	"slices"
	"sync"

	"bridge/checkpoint/store"
)

// lookup finds the entries of entities in the store. It is used again and again.
type lookup struct {
	// asks name what is stored of the entities, hashes are theirs, before the counts of their
	// changes before the lookup. arena holds names that are not the caller's.
	asks    []store.Ask
	hashes  []uint64
	before  []uint32
	arena   []byte
	entries []store.Entry
}

const keepArena = 1 << 20

var lookups = sync.Pool{New: func() any { return new(lookup) }}

func (l *lookup) clear() {
	clear(l.asks)
	l.asks = l.asks[:0]
	if cap(l.arena) > keepArena {
		l.arena = nil
	}
}

// begin begins with a number of entities.
func (l *lookup) begin(n int) {
	l.clear()
	l.arena, l.hashes, l.before = l.arena[:0], l.hashes[:0], l.before[:0]
	l.asks = slices.Grow(l.asks, n)
}

// add adds an entity of a shard, which a row of it may have; 0 for none. It is the caller's memory
// until run returns, and in decisions until they are made.
func (l *lookup) add(v *View, shard string, row uint64, entity []byte) {
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

// key returns what is stored of the i-th entity.
func (l *lookup) key(i int) []byte { return l.asks[i].Entity }

// run looks all entities up. Its caller does not hold the view's lock.
func (l *lookup) run(ctx context.Context, v *View) error {
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

// repeat looks up again what has changed since run, under the view's lock.
func (l *lookup) repeat(ctx context.Context, v *View) error {
	var again []int
	var asks []store.Ask
	for i := range l.asks {
		if v.count(l.hashes[i]).Load() != l.before[i] {
			again, asks = append(again, i), append(asks, l.asks[i])
		}
	}
	if len(again) == 0 {
		return nil
	}
	found, err := v.store.Lookup(ctx, v.stream, asks, nil)
	if err != nil {
		return err
	}
	for n, i := range again {
		l.entries[i] = found[n]
	}
	return nil
}
