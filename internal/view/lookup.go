package view

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"bridge/checkpoint/store"
)

// lookup finds the entries of entities in the store. It is used again and again.
type lookup struct {
	// keys are what is stored of the entities, hashes theirs, before the counts of their changes
	// before the lookup. arena holds keys that are not the caller's.
	keys   [][]byte
	hashes []uint64
	before []uint32
	arena  []byte
	// order is that of the keys' bytes; entries are by key.
	order   []int32
	entries []store.Entry
	// sorted and found are those of one call of the store.
	sorted [][]byte
	found  []store.Entry
}

const keepArena = 1 << 20

var lookups = sync.Pool{New: func() any { return new(lookup) }}

func (l *lookup) clear() {
	clear(l.keys)
	clear(l.sorted)
	l.keys, l.sorted = l.keys[:0], l.sorted[:0]
	if cap(l.arena) > keepArena {
		l.arena = nil
	}
}

// begin begins with a number of entities.
func (l *lookup) begin(n int) {
	l.clear()
	l.arena, l.hashes, l.before, l.order = l.arena[:0], l.hashes[:0], l.before[:0], l.order[:0]
	l.keys = slices.Grow(l.keys, n)
}

// add adds an entity of a shard. It is the caller's memory until run returns, and in decisions
// until they are made.
func (l *lookup) add(v *View, shard string, entity []byte) {
	key := entity
	if v.scope.byTable || len(entity) == 0 {
		// The keys before keep their part of a former arena.
		from := len(l.arena)
		l.arena = v.scope.append(l.arena, shard, entity)
		key = l.arena[from:len(l.arena):len(l.arena)]
	}
	l.keys = append(l.keys, key)
}

// run looks all entities up. Its caller does not hold the view's lock.
func (l *lookup) run(ctx context.Context, v *View) error {
	for i, key := range l.keys {
		hash := v.hash(key)
		l.hashes = append(l.hashes, hash)
		// Before the entry is read: a change that this count lacks may be missing in it.
		l.before = append(l.before, v.count(hash).Load())
		l.order = append(l.order, int32(i))
	}
	slices.SortFunc(l.order, func(a, b int32) int {
		if c := bytes.Compare(l.keys[a], l.keys[b]); c != 0 {
			return c
		}
		return int(a - b)
	})
	l.entries = slices.Grow(l.entries[:0], len(l.keys))[:len(l.keys)]
	return l.read(ctx, v, l.order)
}

// repeat looks up again what has changed since run, under the view's lock.
func (l *lookup) repeat(ctx context.Context, v *View) error {
	var again []int32
	for _, i := range l.order {
		if v.count(l.hashes[i]).Load() != l.before[i] {
			again = append(again, i)
		}
	}
	if len(again) == 0 || v.broken == noRepeat {
		return nil
	}
	return l.read(ctx, v, again)
}

// read reads the entries of those keys.
func (l *lookup) read(ctx context.Context, v *View, order []int32) error {
	l.sorted = l.sorted[:0]
	for _, i := range order {
		l.sorted = append(l.sorted, l.keys[i])
	}
	found, err := v.store.Lookup(ctx, v.stream, l.sorted, l.found[:0])
	if err != nil {
		return err
	}
	for n, i := range order {
		l.entries[i] = found[n]
	}
	l.found = found[:0]
	return nil
}
