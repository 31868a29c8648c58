package pebble

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// filterWords is the size of a filter, 16 MiB.
	filterWords = 1 << 21
	// maxFiltered is how many entries a filter takes: of the unknown ones it then misses 5 of 100.
	maxFiltered = 16_000_000
)

// filter is a Bloom filter, in memory, of the keys of all entries in a store that this process has
// made: it says without a lookup that an entity is unknown. Catch-up without a store asks that of
// most entities. The nil filter knows nothing.
type filter struct {
	seed  maphash.Seed
	words []atomic.Uint64
	added int
}

func newFilter() *filter {
	return &filter{seed: maphash.MakeSeed(), words: make([]atomic.Uint64, filterWords)}
}

// bits returns where the bits of a key are: a word, and two of its bits.
func (f *filter) bits(key []byte) (word *atomic.Uint64, mask uint64) {
	h := maphash.Bytes(f.seed, key)
	return &f.words[h%filterWords], 1<<(h>>52&63) | 1<<(h>>58)
}

// lacks reports whether the store has no entry with the key, now.
func (f *filter) lacks(key []byte) bool {
	if f == nil {
		return false
	}
	word, mask := f.bits(key)
	return word.Load()&mask != mask
}

// add adds a key before its entry is applied. One batch at a time adds. It reports whether the
// filter is full, and of no more use.
func (f *filter) add(key []byte) (full bool) {
	if f == nil {
		return false
	}
	word, mask := f.bits(key)
	if word.Load()&mask != mask {
		word.Or(mask)
		f.added++
	}
	return f.added > maxFiltered
}
