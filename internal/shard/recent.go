package shard

import (
	"hash/maphash"
	"time"
)

// recent remembers which changes the second cursor has seen to: pairs of an id and its MODIFIED. It
// is bounded: of each row only the last change is kept, and the older half of all goes when the
// younger half is full or old enough. A change that it takes for another one, as the hashes of two
// in 2^32 are the same, is left to reconcile.
type recent struct {
	// most bounds the changes of one half, reach is how old a half may become.
	most  int
	reach time.Duration
	seed  maphash.Seed
	// young and old hold hashes of MODIFIED by id; a change is added to the young half.
	young, old map[uint64]uint32
	// youngFrom and oldFrom are when the halves were begun, by the database's clock.
	youngFrom, oldFrom time.Time
}

// newRecent returns one that knows nothing.
func newRecent(most int, reach time.Duration) *recent {
	return &recent{most: max(1, most/2), reach: reach, seed: maphash.MakeSeed(), young: make(map[uint64]uint32)}
}

func (r *recent) hash(modified string) uint32 { return uint32(maphash.String(r.seed, modified)) }

// add notes a change.
func (r *recent) add(id uint64, modified string, now time.Time) {
	if len(r.young) >= r.most || now.Sub(r.youngFrom) > r.reach {
		r.old, r.oldFrom = r.young, r.youngFrom
		r.young, r.youngFrom = make(map[uint64]uint32, len(r.old)/4), now
	}
	r.young[id] = r.hash(modified)
}

// has reports whether a change was noted and is not forgotten.
func (r *recent) has(id uint64, modified string) bool {
	hash, ok := r.young[id]
	if !ok {
		hash, ok = r.old[id]
	}
	return ok && hash == r.hash(modified)
}

// from returns the moment from which on no change that was noted is forgotten, at most the reach
// before now. Before the first change it is that.
func (r *recent) from(now time.Time) time.Time {
	if limit := now.Add(-r.reach); limit.After(r.oldFrom) {
		return limit
	}
	return r.oldFrom
}
