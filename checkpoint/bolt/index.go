package bolt

import "iter"

// index finds a place by a hash: a table with linear probing, in which slots are in the order of hashes but for what had to move on.
// It takes 12 bytes a slot, of which four fifths are taken at most, and a bit more than half at least while it grows.
type index struct {
	// Of a slot that is empty both are 0: the hash 0 is taken for 1, and recent values are numbered from 1. That a slot is empty is seen
	// without a look at places, which are elsewhere in memory.
	hashes []uint32
	places []place
	count  int
}

// slot returns where a hash is, or where it belongs and nothing is. There is a slot that is empty.
func (x *index) slot(hash uint32) int {
	i := int(uint64(hash) * uint64(len(x.hashes)) >> 32)
	for x.hashes[i] != 0 && x.hashes[i] != hash {
		if i++; i == len(x.hashes) {
			i = 0
		}
	}
	return i
}

// get returns the place of a hash.
func (x *index) get(hash uint32) (p place, ok bool) {
	if x.count == 0 {
		return 0, false
	}
	i := x.slot(max(hash, 1))
	if x.hashes[i] == 0 {
		return 0, false
	}
	return x.places[i], true
}

// put makes p the place of a hash.
func (x *index) put(hash uint32, p place) {
	if 5*(x.count+1) > 4*len(x.places) {
		x.rebuild(max(64, len(x.places)+len(x.places)/2), 0)
	}
	hash = max(hash, 1)
	i := x.slot(hash)
	if x.hashes[i] == 0 {
		x.count++
	}
	x.hashes[i], x.places[i] = hash, p
}

// rebuild moves the places of recent values above number through to new slots.
func (x *index) rebuild(slots int, through uint64) {
	old := *x
	*x = index{hashes: make([]uint32, slots), places: make([]place, slots)}
	for i, p := range old.places {
		if p != 0 && p.number() > through {
			at := x.slot(old.hashes[i])
			x.hashes[at], x.places[at] = old.hashes[i], p
			x.count++
		}
	}
}

// drop removes the places of recent values up to number through.
func (x *index) drop(through uint64) {
	kept := 0
	for p := range x.all() {
		if p.number() > through {
			kept++
		}
	}
	x.rebuild(max(64, kept+kept/2), through)
}

// all goes through all places.
func (x *index) all() iter.Seq[place] {
	return func(yield func(place) bool) {
		for _, p := range x.places {
			if p != 0 && !yield(p) {
				return
			}
		}
	}
}
