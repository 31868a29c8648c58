package ledger

import (
	"slices"
	"sort"

	"bridge/source"
)

// leafList keeps ascending gaps in leaves: one to two bytes a gap, or a bit an id where they are
// dense. One leaf at a time is open: decoded, and changed in place until seal encodes it again. Ids
// that come in ascending order open each leaf once.
type leafList struct {
	list []leaf
	// open are the gaps of list[at]; altered says that they are newer than its form. at is -1 where
	// no leaf is open.
	open    []gap
	at      int
	altered bool
	// changed has the keys of the leaves that were made, altered or deleted since it was cleared.
	changed map[uint64]struct{}
	// forms is the size of all forms in memory.
	forms   int
	scratch []byte
	gaps    []gap
	// store has the forms that are not in memory.
	store store
}

func newLeafList() leafList { return leafList{at: -1, changed: make(map[uint64]struct{})} }

// size is the memory of the list in bytes.
func (s *leafList) size() int {
	return s.forms + len(s.list)*leafSize + (cap(s.open)+cap(s.gaps))*24 + cap(s.scratch) + len(s.changed)*16 + s.store.size()
}

// index returns the index of the only leaf that may have id, -1 when there is none.
func (s *leafList) index(id uint64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].key > id }) - 1
}

// find opens the leaf that may have id. It returns the index of the first of its gaps that ends at
// or above id, and whether id is in that gap.
func (s *leafList) find(id uint64) (int, bool) {
	inside := s.at >= 0 && s.list[s.at].key <= id && (s.at+1 == len(s.list) || id < s.list[s.at+1].key)
	if !inside {
		s.seal()
		i := s.index(id)
		if i < 0 || id > s.list[i].Last {
			return 0, false
		}
		s.openLeaf(i)
	}
	j := sort.Search(len(s.open), func(j int) bool { return s.open[j].Last >= id })
	return j, j < len(s.open) && s.open[j].First <= id
}

// append puts g after the gaps of the open leaf.
func (s *leafList) append(g gap) {
	s.altered = true
	if n := len(s.open); n > 0 && s.open[n-1].Last+1 == g.First && s.open[n-1].missed == g.missed {
		s.open[n-1].Last = g.Last
		return
	}
	s.open = append(s.open, g)
}

// remove removes id. It returns what is left of its gap above id and whether id was there.
func (s *leafList) remove(id uint64) (rest source.Range, ok bool) {
	j, ok := s.find(id)
	if !ok {
		return source.Range{First: 1}, false
	}
	s.altered = true
	g := &s.open[j]
	rest = source.Range{First: id + 1, Last: g.Last}
	switch {
	case g.First == g.Last:
		s.open = slices.Delete(s.open, j, j+1)
		return source.Range{First: 1}, true
	case id == g.First:
		g.First++
	case id == g.Last:
		g.Last--
		return source.Range{First: 1}, true
	default:
		above := gap{Range: rest, missed: g.missed}
		g.Last = id - 1
		s.open = slices.Insert(s.open, j+1, above)
		if len(s.open) > 2*leafGaps {
			s.seal()
		}
	}
	return rest, true
}

// insert makes an empty leaf and opens it. The open leaf must not be altered.
func (s *leafList) insert(i int, key uint64) {
	s.list = slices.Insert(s.list, i, leaf{key: key})
	s.at, s.open = i, s.open[:0]
}

// openLeaf opens leaf i. The open leaf must not be altered.
func (s *leafList) openLeaf(i int) {
	if s.at != i {
		s.open, s.at = s.decode(i, s.open[:0]), i
	}
}

// seal encodes the open leaf where it was altered. It may move leaves.
func (s *leafList) seal() {
	if !s.altered {
		return
	}
	s.altered = false
	i := s.at
	key := s.list[i].key
	s.free(i)
	s.changed[key] = struct{}{}
	switch n := len(s.open); {
	case n == 0:
		s.delete(i)
	case n <= 2*leafGaps:
		s.list[i] = s.encode(key, s.open)
	default:
		// Ids that left the middle of long gaps made many short ones.
		s.list[i] = s.encode(key, s.open[:n/2])
		s.list = slices.Insert(s.list, i+1, s.encode(s.open[n/2].First, s.open[n/2:]))
		s.at = -1
	}
}

// delete deletes leaf i, whose form is free.
func (s *leafList) delete(i int) {
	s.changed[s.list[i].key] = struct{}{}
	if i == 0 {
		s.list[0] = leaf{}
		s.list = s.list[1:]
	} else {
		s.list = slices.Delete(s.list, i, i+1)
	}
	s.at = -1
}

// free frees the form of leaf i.
func (s *leafList) free(i int) {
	s.forms -= len(s.list[i].form)
	s.list[i].form = nil
}

// encode returns the leaf of list, which must not be empty.
func (s *leafList) encode(key uint64, list []gap) leaf {
	l := describe(key, list)
	s.scratch = appendGaps(s.scratch[:0], list)
	l.form = append(make([]byte, 0, len(s.scratch)), s.scratch...)
	l.size = len(l.form)
	s.forms += l.size
	s.changed[key] = struct{}{}
	return l
}

// replace makes list the gaps of leaf i, and leaves no leaf open.
func (s *leafList) replace(i int, list []gap) {
	if s.store.err != nil {
		return
	}
	s.free(i)
	s.list[i] = s.encode(s.list[i].key, list)
	s.at = -1
}

// each calls yield for the gaps of leaf i in ascending order until it returns false, and reports
// whether it never did.
func (s *leafList) each(i int, yield func(gap) bool) bool {
	b := s.form(i)
	return b == nil || eachGap(b, yield)
}

// decode appends the gaps of leaf i to dst.
func (s *leafList) decode(i int, dst []gap) []gap {
	s.each(i, func(g gap) bool {
		dst = append(dst, g)
		return true
	})
	return dst
}
