package ledger

import (
	"slices"
	"sort"

	"bridge/source"
)

// The functions that call yield do so until it returns false; it must not change the set.

// ascend calls yield for the gaps that end at or above from, in ascending order.
func (s *gapSet) ascend(from uint64, yield func(gap) bool) {
	s.leaves.seal()
	leaves := s.leaves.list
	i := max(s.leaves.index(from), 0)
	k := sort.Search(len(s.wide), func(k int) bool { return s.wide[k].Last >= from })
	for i < len(leaves) || k < len(s.wide) {
		if k < len(s.wide) && (i == len(leaves) || s.wide[k].First < leaves[i].First) {
			if !yield(s.wide[k]) {
				return
			}
			k++
			continue
		}
		if leaves[i].Last >= from && !s.leaves.each(i, func(g gap) bool { return g.Last < from || yield(g) }) {
			return
		}
		i++
	}
}

// descend calls yield for the gaps that begin at or below from, in descending order.
func (s *gapSet) descend(from uint64, yield func(gap) bool) {
	s.leaves.seal()
	var list []gap
	i := s.leaves.index(from)
	k := s.wide.segmentOf(from) - 1
	for i >= 0 || k >= 0 {
		if k >= 0 && (i < 0 || s.leaves.list[i].First < s.wide[k].First) {
			if !yield(s.wide[k]) {
				return
			}
			k--
			continue
		}
		list = s.leaves.decode(i, list[:0])
		for _, g := range slices.Backward(list) {
			if g.First <= from && !yield(g) {
				return
			}
		}
		i--
	}
}

// within calls yield for every gap that overlaps one of the ascending, disjoint ranges, in
// ascending order, with the index of the range; a gap that overlaps several comes with each.
func (s *gapSet) within(ranges []source.Range, yield func(g gap, i int)) {
	s.leaves.seal()
	leaves := s.leaves.list
	at := 0
	overlap := func(g gap) bool {
		for at < len(ranges) && ranges[at].Last < g.First {
			at++
		}
		for ; at < len(ranges) && ranges[at].First <= g.Last; at++ {
			yield(g, at)
			if ranges[at].Last > g.Last {
				break
			}
		}
		return at < len(ranges)
	}
	k := 0
	for i := 0; at < len(ranges); {
		i = max(i, s.leaves.index(ranges[at].First))
		for k < len(s.wide) && s.wide[k].Last < ranges[at].First {
			k++
		}
		if k < len(s.wide) && (i == len(leaves) || s.wide[k].First < leaves[i].key) {
			overlap(s.wide[k])
			k++
			continue
		}
		if i == len(leaves) {
			return
		}
		s.leaves.each(i, overlap)
		i++
	}
}

// missingIn calls yield for the ranges of missing ids in r, ascending, and reports whether yield
// never returned false.
func (s *gapSet) missingIn(r source.Range, yield func(source.Range) bool) bool {
	all := true
	s.ascend(r.First, func(g gap) bool {
		if g.First > r.Last {
			return false
		}
		all = yield(g.Intersect(r))
		return all
	})
	return all
}

// count returns how many ids of r are in the set.
func (s *gapSet) count(r source.Range) uint64 {
	n := uint64(0)
	s.visit(r, func(l *leaf) { n += l.ids }, func(g gap) {
		both := gap{Range: g.Intersect(r)}
		n += both.size()
	})
	return n
}

// gaps returns the number of gaps in r.
func (s *gapSet) gaps(r source.Range) int {
	n := 0
	s.visit(r, func(l *leaf) { n += l.gaps }, func(gap) { n++ })
	return n
}

// visit calls whole for the leaves that lie in r, and part for all other gaps that overlap r.
func (s *gapSet) visit(r source.Range, whole func(*leaf), part func(gap)) {
	s.leaves.seal()
	for i := max(s.leaves.index(r.First), 0); i < len(s.leaves.list) && s.leaves.list[i].First <= r.Last; i++ {
		switch l := &s.leaves.list[i]; {
		case l.Last < r.First:
		case l.First >= r.First && l.Last <= r.Last:
			whole(l)
		default:
			s.leaves.each(i, func(g gap) bool {
				if g.Overlaps(r) {
					part(g)
				}
				return g.First <= r.Last
			})
		}
	}
	for _, w := range s.wide {
		if w.Overlaps(r) {
			part(w)
		}
	}
}

// maxGaps returns an upper bound of the number of gaps in r, without decoding a leaf.
func (s *gapSet) maxGaps(r source.Range) int {
	s.leaves.seal()
	n := 0
	for i := max(s.leaves.index(r.First), 0); i < len(s.leaves.list) && s.leaves.list[i].First <= r.Last; i++ {
		if s.leaves.list[i].Last >= r.First {
			n += s.leaves.list[i].gaps
		}
	}
	for _, w := range s.wide {
		if w.Overlaps(r) {
			n++
		}
	}
	return n
}

// any reports whether an id of r is in the set.
func (s *gapSet) any(r source.Range) bool {
	if r.Empty() {
		return false
	}
	for _, w := range s.wide {
		if w.Overlaps(r) {
			return true
		}
	}
	l := &s.leaves
	if j, ok := l.find(r.First); ok || l.at >= 0 && j < len(l.open) && r.Has(l.open[j].First) {
		return true
	}
	l.seal()
	i := l.index(r.First) + 1
	return i < len(l.list) && l.list[i].First <= r.Last
}

// missedBy returns the highest id of segment k that was missed at or before t, 0 when there is
// none.
func (s *gapSet) missedBy(k int, t int64) uint64 {
	from, to := s.leavesOf(k)
	list := s.leaves.list
	i := from + sort.Search(to-from, func(i int) bool { return list[from+i].oldest > t }) - 1
	if i < from {
		if k > 0 && s.wide[k-1].missed <= t {
			return s.wide[k-1].Last
		}
		return 0
	}
	if list[i].newest <= t {
		return list[i].Last
	}
	last := uint64(0)
	s.leaves.each(i, func(g gap) bool {
		if g.missed > t {
			return false
		}
		last = g.Last
		return true
	})
	return last
}
