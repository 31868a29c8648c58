package ledger

import (
	"sort"

	"bridge/source"
)

// gapSet is a set of missing ids. They lie in segments, one above the other, with one wide gap
// between two of them. Within a segment the times of the gaps never descend, and ids join at the
// upper end only. A wide gap belongs to the segment above it.
type gapSet struct {
	leaves leafList
	wide   wideGaps
	// segments are one more than the wide gaps.
	segments []segment
}

// segment is what is known of the ids between two wide gaps.
type segment struct {
	// observed says that every missing id up to it has been in an evidence. A missing id at or
	// below expired is no longer polled: an evidence showed it vacant when its time was over.
	observed, expired uint64
}

func newGapSet() *gapSet {
	return &gapSet{leaves: newLeafList(), segments: make([]segment, 1)}
}

// top is the index of the highest segment, which ids are added to.
func (s *gapSet) top() int { return len(s.wide) }

// leavesOf returns the indexes of the leaves of segment k, the second one exclusive. It seals.
func (s *gapSet) leavesOf(k int) (from, to int) {
	s.leaves.seal()
	list := s.leaves.list
	to = len(list)
	if k > 0 {
		from = sort.Search(len(list), func(i int) bool { return list[i].key > s.wide[k-1].Last })
	}
	if k < len(s.wide) {
		to = sort.Search(len(list), func(i int) bool { return list[i].key > s.wide[k].First })
	}
	return from, to
}

// newest returns the time of the last gap of segment k, false when it is empty.
func (s *gapSet) newest(k int) (int64, bool) {
	from, to := s.leavesOf(k)
	switch {
	case from < to:
		return s.leaves.list[to-1].newest, true
	case k > 0:
		return s.wide[k-1].missed, true
	}
	return 0, false
}

// add puts g at the upper end: above every id that was ever in the set, and no older than the last
// gap of its segment.
func (s *gapSet) add(g gap) {
	if s.makeWide(g) {
		s.wide = append(s.wide, g)
		s.segments = append(s.segments, segment{observed: g.First - 1, expired: g.First - 1})
		return
	}
	s.addTo(s.top(), g)
}

// addTo puts g at the upper end of segment k.
func (s *gapSet) addTo(k int, g gap) {
	l := &s.leaves
	if l.at < 0 || l.at != len(l.list)-1 || k < s.top() || k > 0 && l.list[l.at].key < s.wide[k-1].First {
		from, to := s.leavesOf(k)
		if from == to {
			l.insert(to, g.First)
		} else if l.at != to-1 {
			l.openLeaf(to - 1)
		}
	}
	if len(l.open) >= leafGaps {
		_, to := s.leavesOf(k)
		l.insert(to, g.First)
	}
	l.append(g)
}

// has reports whether id is in the set.
func (s *gapSet) has(id uint64) bool {
	if s.wide.index(id) >= 0 {
		return true
	}
	_, ok := s.leaves.find(id)
	return ok
}

// remove removes id from the set at the time t. It returns the missing ids that follow id in its
// gap, and whether id was there.
func (s *gapSet) remove(id uint64, t int64) (rest source.Range, ok bool) {
	if k := s.wide.index(id); k >= 0 {
		return s.removeWide(k, source.Range{First: id, Last: id}, t), true
	}
	return s.leaves.remove(id)
}
