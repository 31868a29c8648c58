package pebble

import "sync/atomic"

const (
	// filterWords is the size of a filter, 16 MiB.
	filterWords = 1 << 21
	// maxFiltered is how many entries a filter takes: of the unknown ones it then misses 5 of 100.
	maxFiltered = 16_000_000
)

// filter is a Bloom filter, in memory, of the hashes of all entries in a store that this process
// has made: it says without a lookup that an entity is unknown. Catch-up without a store asks that
// of most entities. The nil filter knows nothing.
type filter struct {
	words []atomic.Uint64
	added int
}

func newFilter() *filter { return &filter{words: make([]atomic.Uint64, filterWords)} }

// bits returns where the bits of a hash in a stream are: a word, and two of its bits.
func (f *filter) bits(stream uint32, hash uint64) (word *atomic.Uint64, mask uint64) {
	hash += uint64(stream) * 0x9e3779b97f4a7c15
	return &f.words[hash%filterWords], 1<<(hash>>52&63) | 1<<(hash>>58)
}

// lacks reports whether the store has no entry with the hash, now.
func (f *filter) lacks(stream uint32, hash uint64) bool {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	return word.Load()&mask != mask
}

// add adds a hash before its entry is applied. One batch at a time adds. It reports whether the
// filter is full, and of no more use.
func (f *filter) add(stream uint32, hash uint64) (full bool) {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	if word.Load()&mask != mask {
		word.Or(mask)
		f.added++
	}
	return f.added > maxFiltered
}
