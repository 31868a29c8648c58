package ledger

import (
	"slices"
	"sort"

	"example.org/bridge/source"
)

// segment has the missing ids from one wide gap to the next. A wide gap is what a stray high id
// leaves behind: new ids continue at its low end. So its low end stays polled, and the ids that
// rows skip there are missing from then on, as at the position.
type segment struct {
	// from is the first id of the wide gap, 0 in the lowest segment.
	from uint64
	// observed says that every missing id up to it has been in an evidence. A missing id at or
	// below expired is no longer polled: an evidence showed it vacant when its time was over.
	observed, expired uint64
}

const (
	// frontIDs is how many ids at the low end of a wide gap are polled. A gap with more is wide.
	frontIDs = 1 << 20
	// maxWide bounds the wide gaps. Ids that contain a time have a wide gap after every row.
	maxWide = 8
)

func wideBlock(g gap) block {
	b := block{key: g.First, wide: true}
	b.count(g)
	return b
}

func (s *set) top() int { return len(s.segments) - 1 }

func (s *set) segmentOf(id uint64) int {
	return sort.Search(s.top(), func(k int) bool { return s.segments[k+1].from > id })
}

func (s *set) segment(k int) source.Range {
	r := source.Range{First: s.segments[k].from, Last: 1<<64 - 1}
	if k < s.top() {
		r.Last = s.segments[k+1].from - 1
	}
	return r
}

func (s *set) blocksOf(k int) (from, to int) {
	from, to = 0, len(s.list)
	if k > 0 {
		from = sort.Search(to, func(i int) bool { return s.list[i].key >= s.segments[k].from })
	}
	if k < s.top() {
		to = sort.Search(to, func(i int) bool { return s.list[i].key >= s.segments[k+1].from })
	}
	return from, to
}

// wide returns the wide gaps, of the segments from the second on, in ascending order.
func (s *set) wide() (gaps []gap) {
	for k := range s.top() {
		b := &s.list[s.index(s.segments[k+1].from)]
		gaps = append(gaps, gap{b.Range, b.oldest})
	}
	return gaps
}

// front returns the ids of a wide gap that are looked for at every poll.
func front(wide gap) source.Range {
	return source.Range{First: wide.First, Last: wide.First + min(wide.size(), frontIDs) - 1}
}

// newest returns the time of the last gap of segment k, t when it is empty or older.
func (s *set) newest(k int, t int64) int64 {
	s.seal()
	if from, to := s.blocksOf(k); from < to {
		return max(t, s.list[to-1].newest)
	}
	return t
}

// missedBy returns the highest id of segment k missed at or before t, 0 when there is none.
func (s *set) missedBy(k int, t int64) (last uint64) {
	s.seal()
	from, to := s.blocksOf(k)
	i := from + sort.Search(to-from, func(i int) bool { return s.list[from+i].oldest > t }) - 1
	if i < from {
		return 0
	}
	if s.list[i].newest <= t {
		return s.list[i].Last
	}
	for g := range s.gaps(i) {
		if g.missed > t {
			break
		}
		last = g.Last
	}
	return last
}

// add puts g above every id that was ever in the set, no older than the last gap of its segment.
func (s *set) add(g gap) {
	if g.size() <= frontIDs {
		s.addTo(s.top(), g)
		return
	}
	if s.top() == maxWide {
		k, size := s.narrowest()
		if size > g.size()/2 {
			s.addTo(s.top(), g)
			return
		}
		s.closeWide(k)
	}
	s.list = append(s.list, wideBlock(g))
	s.segments = append(s.segments, segment{from: g.First, observed: g.First - 1, expired: g.First - 1})
}

func (s *set) addTo(k int, g gap) {
	from, i := s.blocksOf(k)
	i--
	plain := i >= from && !s.list[i].wide
	if plain && i != s.at {
		s.decode(i)
	}
	if !plain || len(s.open) >= blockGaps {
		i++
		s.openNew(i, g.First)
	}
	s.altered = true
	if n := len(s.open) - 1; n >= 0 && s.open[n].Last+1 == g.First && s.open[n].missed == g.missed {
		s.open[n].Last = g.Last
		return
	}
	s.open = append(s.open, g)
}

func (s *blocks) openNew(i int, key uint64) {
	s.seal()
	s.list = slices.Insert(s.list, i, block{key: key})
	s.at, s.open = i, s.open[:0]
}

func (s *set) narrowest() (k int, size uint64) {
	for i, w := range s.wide() {
		if k == 0 || w.size() < size {
			k, size = i+1, w.size()
		}
	}
	return k, size
}

// removeWide removes ids, which lie in wide gap i, at the time t. At the front, the ids below them
// are missing from then on; further on the gap is cut in two. It returns the missing ids above.
func (s *set) removeWide(i int, ids source.Range, t int64) (rest source.Range) {
	s.seal()
	s.at = -1
	w := gap{s.list[i].Range, s.list[i].oldest}
	k := s.segmentOf(w.First)
	below := gap{source.Range{First: w.First, Last: ids.First - 1}, w.missed}
	above := gap{source.Range{First: ids.Last + 1, Last: w.Last}, w.missed}
	if ids.Last == w.Last {
		above.Range = source.Range{First: 1}
	}
	switch {
	case ids.First-w.First >= frontIDs:
		s.list[i] = wideBlock(below)
		s.cut(i+1, k, above)
		return above.Range
	case above.Empty():
		// Nothing lies there any more.
		s.segments[k].from = ids.Last
		s.remove(i)
	default:
		s.segments[k].from = above.First
		s.list[i] = wideBlock(above)
	}
	if !below.Empty() {
		below.missed = s.newest(k-1, t)
		s.addTo(k-1, below)
	}
	if above.Empty() {
		s.join(k)
	}
	return above.Range
}

// cut puts the upper part of the wide gap of segment k back, as block i.
func (s *set) cut(i, k int, above gap) {
	switch {
	case above.Empty():
		return
	case above.size() <= frontIDs:
		// It is as old as the oldest of its segment.
		s.openNew(i, above.First)
		s.open, s.altered = append(s.open, above), true
		return
	}
	s.list = slices.Insert(s.list, i, wideBlock(above))
	at, last := &s.segments[k], above.First-1
	upper := segment{from: above.First, observed: max(at.observed, last), expired: max(at.expired, last)}
	at.observed, at.expired = min(at.observed, last), min(at.expired, last)
	s.segments = slices.Insert(s.segments, k+1, upper)
	if s.top() > maxWide {
		k, _ := s.narrowest()
		s.closeWide(k)
	}
}

// closeWide makes the wide gap of segment k a gap like others.
func (s *set) closeWide(k int) {
	s.seal()
	i := s.index(s.segments[k].from)
	s.write(i, s.list[i].First, []gap{{s.list[i].Range, s.list[i].oldest}})
	s.join(k)
}

// join makes one segment of segment k and the one below, without the wide gap between. Times never
// descend in a segment, so the ids of the upper one may become younger and are polled for longer.
// Where no id of the lower segment is polled, the upper one says which are.
func (s *set) join(k int) {
	newest := s.newest(k-1, -1<<63)
	from, to := s.blocksOf(k)
	for i := from; i < to && s.list[i].oldest < newest; i++ {
		list := slices.Collect(s.gaps(i))
		for j := range list {
			list[j].missed = max(list[j].missed, newest)
		}
		if s.err != nil {
			return
		}
		s.write(i, s.list[i].key, list)
	}
	lower, ids := s.segments[k-1], s.segment(k-1)
	if low := min(lower.observed, lower.expired); low >= ids.Last || !s.any(source.Range{First: low + 1, Last: ids.Last}) {
		lower.observed, lower.expired = s.segments[k].observed, s.segments[k].expired
	}
	s.segments[k-1] = lower
	s.segments = slices.Delete(s.segments, k, k+1)
}

// compact encodes the blocks of segment k that end in ids, which are no longer polled, in less
// space: one time a block, and small blocks joined. What is kept for ever then takes about a byte a
// gap, or a bit an id. busy reports whether the times of a range are still needed.
func (s *set) compact(k int, ids source.Range, busy func(source.Range) bool) {
	s.seal()
	s.at = -1
	from, to := s.blocksOf(k)
	ready := func(i int) bool {
		return i >= from && !s.list[i].wide && s.list[i].Last <= ids.Last && !busy(s.list[i].Range)
	}
	for i := max(from, s.index(ids.First)); i < to && s.list[i].Last <= ids.Last; i++ {
		b, join := &s.list[i], ready(i-1) && s.list[i-1].gaps+s.list[i].gaps <= blockGaps
		// Full blocks with short times stay: encoding all at once would make the file larger.
		if !ready(i) || !join && (b.oldest == b.newest || b.size <= 2*b.gaps) {
			continue
		}
		list := slices.Collect(s.gaps(i))
		if join {
			list = slices.AppendSeq(slices.Collect(s.gaps(i-1)), slices.Values(list))
			s.remove(i)
			i--
			to--
		}
		s.write(i, s.list[i].key, flatten(list))
	}
}

// flatten gives all gaps the time of the last one and joins adjacent ones. It overwrites list.
func flatten(list []gap) []gap {
	kept := list[:0]
	for _, g := range list {
		g.missed = list[len(list)-1].missed
		if n := len(kept) - 1; n >= 0 && kept[n].Last+1 == g.First {
			kept[n].Last = g.Last
			continue
		}
		kept = append(kept, g)
	}
	return kept
}
