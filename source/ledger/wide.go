package ledger

import (
	"slices"
	"sort"

	"bridge/source"
)

// wideGaps are ascending gaps that a stray high id leaves behind. New ids continue at the low end
// of such a gap, in order, as if nothing had happened. So its front is polled for ever, and the ids
// that rows skip there are missing from then on, as at the position.
type wideGaps []gap

const (
	// frontIDs is how many ids at the low end of a wide gap are polled. A gap with more is wide.
	frontIDs = 1 << 20
	// maxWide bounds the wide gaps. A further one takes the room of the narrowest if it is at least
	// twice as wide. Ids that contain a time have a wide gap after every row.
	maxWide = 8
)

// front returns the ids of wide gap k that are looked for at every poll.
func (w wideGaps) front(k int) source.Range {
	r := w[k].Range
	if r.Last-r.First >= frontIDs {
		r.Last = r.First + frontIDs - 1
	}
	return r
}

// index returns the index of the wide gap that has id, -1 when there is none.
func (w wideGaps) index(id uint64) int {
	for k := range w {
		if w[k].Has(id) {
			return k
		}
	}
	return -1
}

// segmentOf returns the index of the segment that id belongs to.
func (w wideGaps) segmentOf(id uint64) int {
	return sort.Search(len(w), func(k int) bool { return w[k].First > id })
}

// segment returns the ids that belong to segment k.
func (w wideGaps) segment(k int) source.Range {
	r := source.Range{Last: 1<<64 - 1}
	if k > 0 {
		r.First = w[k-1].First
	}
	if k < len(w) {
		r.Last = w[k].First - 1
	}
	return r
}

func (w wideGaps) narrowest() int {
	least := 0
	for k := range w {
		if w[k].size() < w[least].size() {
			least = k
		}
	}
	return least
}

// makeWide reports whether g is to be a wide gap, and makes room for it.
func (s *gapSet) makeWide(g gap) bool {
	if g.Last-g.First < frontIDs {
		return false
	}
	if len(s.wide) < maxWide {
		return true
	}
	k := s.wide.narrowest()
	if s.wide[k].size() > g.size()/2 {
		return false
	}
	s.closeWide(k)
	return true
}

// overlapping returns the index of the first wide gap that overlaps r, -1 when none does.
func (w wideGaps) overlapping(r source.Range) int {
	for k := range w {
		if w[k].Overlaps(r) {
			return k
		}
	}
	return -1
}

// removeWide removes ids, which lie in wide gap k, at the time t. At the front, the ids below them
// are missing from then on; further on the gap is cut in two. It returns the missing ids above.
func (s *gapSet) removeWide(k int, ids source.Range, t int64) (rest source.Range) {
	s.leaves.seal()
	w := s.wide[k]
	below, rest := gap{source.Range{First: w.First, Last: ids.First - 1}, w.missed}, source.Range{First: 1}
	if ids.Last < w.Last {
		rest = source.Range{First: ids.Last + 1, Last: w.Last}
	}
	if ids.First-w.First >= frontIDs {
		s.cut(k, below, rest)
		return rest
	}
	unpolled := s.unpolled(k)
	if ids.First > w.First {
		below.missed = t
		if newest, ok := s.newest(k); ok {
			below.missed = max(t, newest)
		}
		s.addTo(k, below)
	}
	if ids.Last == w.Last {
		s.join(k, unpolled && ids.First == w.First)
	} else {
		s.wide[k].First = ids.Last + 1
	}
	return rest
}

// cut makes of wide gap k the two that are left of it.
func (s *gapSet) cut(k int, below gap, rest source.Range) {
	s.wide[k] = below
	above := gap{rest, below.missed}
	switch {
	case rest.Empty():
		return
	case rest.Last-rest.First < frontIDs:
		// It is as old as the oldest of its segment.
		from, _ := s.leavesOf(k + 1)
		s.leaves.insert(from, above.First)
		s.leaves.append(above)
		return
	}
	at, id := s.segments[k+1], rest.First-1
	s.wide = slices.Insert(s.wide, k+1, above)
	s.segments = slices.Insert(s.segments, k+2, segment{observed: max(at.observed, id), expired: max(at.expired, id)})
	s.segments[k+1] = segment{observed: min(at.observed, id), expired: min(at.expired, id)}
	if len(s.wide) > maxWide {
		s.closeWide(s.wide.narrowest())
	}
}

// closeWide makes wide gap k a gap like others.
func (s *gapSet) closeWide(k int) {
	unpolled := s.unpolled(k)
	w := s.wide[k]
	if newest, ok := s.newest(k); ok {
		w.missed = max(w.missed, newest)
	}
	s.addTo(k, w)
	s.join(k, unpolled)
}

// unpolled reports whether no id of segment k is polled for its age any more.
func (s *gapSet) unpolled(k int) bool {
	ids, at := s.wide.segment(k), s.segments[k]
	low := min(at.observed, at.expired)
	return low >= ids.Last || !s.any(source.Range{First: low + 1, Last: ids.Last})
}

// join makes one segment of segment k and the one above, without the wide gap between. Times never
// descend in a segment, so the ids of the upper one may become younger and are polled for longer.
// Where no id of the lower segment is polled, the upper one says which are.
func (s *gapSet) join(k int, unpolled bool) {
	newest, ok := s.newest(k)
	from, to := s.leavesOf(k + 1)
	for i := from; ok && i < to && s.leaves.list[i].oldest < newest; i++ {
		list := s.leaves.decode(i, nil)
		if len(list) == 0 {
			// The part cannot be read: the ledger is not used again.
			return
		}
		for j := range list {
			list[j].missed = max(list[j].missed, newest)
		}
		s.leaves.replace(i, list)
	}
	at := s.segments[k]
	if unpolled {
		at = s.segments[k+1]
	}
	s.wide = slices.Delete(s.wide, k, k+1)
	s.segments = slices.Delete(s.segments, k, k+2)
	s.segments = slices.Insert(s.segments, k, at)
}
