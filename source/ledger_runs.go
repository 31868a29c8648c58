package source

import (
	"slices"
	"sort"
)

// runs is a set of ids in ascending runs whose times never descend. Ids join it at the upper end only, and leave it anywhere.
// It takes about three bytes a run. One leaf at a time is open, that is, decoded and open to changes; ids that come in ascending
// order so open each leaf once.
type runs struct {
	leaves []leaf
	// open are the runs of leaves[at]; altered says that they are newer than its form.
	open    []run
	at      int
	altered bool
	// changed holds the keys of the leaves that were made, altered or dropped since it was cleared.
	changed map[uint64]struct{}
	// forms is the size of all forms.
	forms   int
	scratch []byte
}

func newRuns() *runs { return &runs{at: -1, changed: make(map[uint64]struct{})} }

// size is the memory of the set in bytes.
func (s *runs) size() int {
	return s.forms + len(s.leaves)*leafSize + cap(s.open)*24 + cap(s.scratch) + len(s.changed)*16
}

// newest returns the last id and the time of the last run, false when the set is empty.
func (s *runs) newest() (uint64, int64, bool) {
	s.seal()
	if len(s.leaves) == 0 {
		return 0, 0, false
	}
	l := &s.leaves[len(s.leaves)-1]
	return l.last, l.newest, true
}

// add puts r at the upper end: above every id that was ever in the set, and no older than its last run.
func (s *runs) add(r run) {
	if s.at < 0 || s.at != len(s.leaves)-1 {
		s.seal()
		if len(s.leaves) > 0 {
			s.unfold(len(s.leaves) - 1)
		}
	}
	if len(s.leaves) == 0 || len(s.open) >= leafRuns {
		s.seal()
		s.leaves = append(s.leaves, leaf{key: r.first})
		s.at, s.open = len(s.leaves)-1, s.open[:0]
	}
	s.altered = true
	if n := len(s.open); n > 0 && s.open[n-1].last+1 == r.first && s.open[n-1].missed == r.missed {
		s.open[n-1].last = r.last
		return
	}
	s.open = append(s.open, r)
}

// unfold opens leaf i. The open leaf must not be altered.
func (s *runs) unfold(i int) {
	if s.at != i {
		s.open, s.at = s.leaves[i].decode(s.open[:0]), i
	}
}

// seal brings the forms up to date with the open leaf. It may move leaves.
func (s *runs) seal() {
	if !s.altered {
		return
	}
	s.altered = false
	i := s.at
	key := s.leaves[i].key
	s.forms -= len(s.leaves[i].form)
	s.changed[key] = struct{}{}
	switch n := len(s.open); {
	case n == 0:
		if i == 0 {
			s.leaves[0] = leaf{}
			s.leaves = s.leaves[1:]
		} else {
			s.leaves = slices.Delete(s.leaves, i, i+1)
		}
		s.at = -1
	case n <= 2*leafRuns:
		s.leaves[i] = s.encode(key, s.open)
	default:
		// Ids that left the middle of long runs made many short ones.
		s.leaves[i] = s.encode(key, s.open[:n/2])
		s.leaves = slices.Insert(s.leaves, i+1, s.encode(s.open[n/2].first, s.open[n/2:]))
		s.at = -1
	}
}

func (s *runs) encode(key uint64, list []run) leaf {
	l, scratch := newLeaf(key, list, s.scratch)
	s.scratch = scratch
	s.forms += len(l.form)
	s.changed[key] = struct{}{}
	return l
}

// leafOf returns the index of the only leaf that may hold id, -1 when there is none.
func (s *runs) leafOf(id uint64) int {
	return sort.Search(len(s.leaves), func(i int) bool { return s.leaves[i].key > id }) - 1
}

// find opens the leaf that may hold id and returns the index of the first of its runs that ends at or above id, and whether
// id is in that run.
func (s *runs) find(id uint64) (int, bool) {
	inside := s.at >= 0 && s.leaves[s.at].key <= id && (s.at+1 == len(s.leaves) || id < s.leaves[s.at+1].key)
	if !inside {
		s.seal()
		i := s.leafOf(id)
		if i < 0 || id > s.leaves[i].last {
			return 0, false
		}
		s.unfold(i)
	}
	j := sort.Search(len(s.open), func(j int) bool { return s.open[j].last >= id })
	return j, j < len(s.open) && s.open[j].first <= id
}

// has reports whether id is in the set.
func (s *runs) has(id uint64) bool {
	_, ok := s.find(id)
	return ok
}

// remove takes id out of the set. It returns what is left of its run above id, empty (first > last) when nothing is, and
// whether id was there.
func (s *runs) remove(id uint64) (rest Range, ok bool) {
	j, ok := s.find(id)
	if !ok {
		return Range{First: 1}, false
	}
	s.altered = true
	r := &s.open[j]
	rest = Range{First: id + 1, Last: r.last}
	switch {
	case r.first == r.last:
		s.open = slices.Delete(s.open, j, j+1)
		return Range{First: 1}, true
	case id == r.first:
		r.first++
	case id == r.last:
		r.last--
		return Range{First: 1}, true
	default:
		above := run{first: id + 1, last: r.last, missed: r.missed}
		r.last = id - 1
		s.open = slices.Insert(s.open, j+1, above)
		if len(s.open) > 2*leafRuns {
			s.seal()
		}
	}
	return rest, true
}

// removeRange takes all ids of r out of the set and appends what was there to dst.
func (s *runs) removeRange(dst []run, r Range) []run {
	s.seal()
	for i := max(s.leafOf(r.First), 0); i < len(s.leaves) && s.leaves[i].first <= r.Last; {
		if s.leaves[i].last < r.First {
			i++
			continue
		}
		s.unfold(i)
		kept := make([]run, 0, len(s.open)+1)
		for _, o := range s.open {
			if o.last < r.First || o.first > r.Last {
				kept = append(kept, o)
				continue
			}
			dst = append(dst, run{first: max(o.first, r.First), last: min(o.last, r.Last), missed: o.missed})
			if o.first < r.First {
				kept = append(kept, run{first: o.first, last: r.First - 1, missed: o.missed})
			}
			if o.last > r.Last {
				kept = append(kept, run{first: r.Last + 1, last: o.last, missed: o.missed})
			}
		}
		s.open, s.altered = kept, true
		before := len(s.leaves)
		s.seal()
		i += 1 + len(s.leaves) - before
	}
	return dst
}

// ascend calls yield for the runs that end at or above from, in ascending order, until it returns false. yield must not
// change the set.
func (s *runs) ascend(from uint64, yield func(run) bool) {
	s.seal()
	for i := max(s.leafOf(from), 0); i < len(s.leaves); i++ {
		if s.leaves[i].last < from {
			continue
		}
		if !s.leaves[i].each(func(r run) bool { return r.last < from || yield(r) }) {
			return
		}
	}
}

// within calls yield for every run that overlaps one of the ascending, disjoint ranges, in ascending order, with the index of the
// range; a run that overlaps several comes with each of them. yield must not change the set.
func (s *runs) within(ranges []Range, yield func(r run, i int)) {
	s.seal()
	i := 0
	for k := 0; i < len(ranges) && k < len(s.leaves); k++ {
		k = max(k, s.leafOf(ranges[i].First))
		s.leaves[k].each(func(r run) bool {
			for i < len(ranges) && ranges[i].Last < r.first {
				i++
			}
			for ; i < len(ranges) && ranges[i].First <= r.last; i++ {
				yield(r, i)
				if ranges[i].Last > r.last {
					break
				}
			}
			return i < len(ranges)
		})
	}
}

// descend calls yield for the runs that begin at or below from, in descending order, until it returns false. yield must not
// change the set.
func (s *runs) descend(from uint64, yield func(run) bool) {
	s.seal()
	var list []run
	for i := s.leafOf(from); i >= 0; i-- {
		list = s.leaves[i].decode(list[:0])
		for _, r := range slices.Backward(list) {
			if r.first <= from && !yield(r) {
				return
			}
		}
	}
}

// count returns how many ids of r are in the set.
func (s *runs) count(r Range) uint64 {
	s.seal()
	n := uint64(0)
	for i := max(s.leafOf(r.First), 0); i < len(s.leaves) && s.leaves[i].first <= r.Last; i++ {
		l := &s.leaves[i]
		if l.first >= r.First && l.last <= r.Last {
			n += l.ids
			continue
		}
		l.each(func(o run) bool {
			if o.last >= r.First && o.first <= r.Last {
				n += min(o.last, r.Last) - max(o.first, r.First) + 1
			}
			return o.first <= r.Last
		})
	}
	return n
}

// through returns the highest id that was missed at or before t, 0 when there is none.
func (s *runs) through(t int64) uint64 {
	s.seal()
	i := sort.Search(len(s.leaves), func(i int) bool { return s.leaves[i].oldest > t }) - 1
	if i < 0 {
		return 0
	}
	l := &s.leaves[i]
	if l.newest <= t {
		return l.last
	}
	last := uint64(0)
	l.each(func(r run) bool {
		if r.missed > t {
			return false
		}
		last = r.last
		return true
	})
	return last
}

// from returns the number of runs in the leaves that may hold ids at or above id: an upper bound of those that do.
func (s *runs) from(id uint64) int {
	n := 0
	for i := len(s.leaves) - 1; i >= 0 && s.leaves[i].last >= id; i-- {
		n += s.leaves[i].runs
	}
	return n
}

// any reports whether an id of r is in the set.
func (s *runs) any(r Range) bool {
	if j, ok := s.find(r.First); ok || s.at >= 0 && j < len(s.open) && s.open[j].first >= r.First && s.open[j].first <= r.Last {
		return true
	}
	s.seal()
	i := s.leafOf(r.First) + 1
	return i < len(s.leaves) && s.leaves[i].first <= r.Last
}
