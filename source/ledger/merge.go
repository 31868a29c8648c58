package ledger

import (
	"cmp"
	"slices"

	"bridge/source"
)

// candidate is a range that may become part of a probe and how many ids in it are not missing.
type candidate struct {
	source.Range
	extra uint64
	rank  int
}

// mergeLimits bound a probe: its ranges, and the ids in its candidates that are not missing.
type mergeLimits struct{ ranges, ids int }

// gatherer gathers neighbouring gaps into candidates.
type gatherer struct {
	list         []candidate
	limit        int
	slack, spare uint64
}

// gatherer returns a gatherer for one of share parts of a probe.
func (m mergeLimits) gatherer(share int) gatherer {
	return gatherer{
		limit: max(1, m.ranges/share),
		slack: max(1, uint64(m.ids/m.ranges)),
		spare: uint64(m.ids / share),
	}
}

// add adds the next gap in either direction and reports whether there is room for more.
func (w *gatherer) add(g gap) bool {
	if n := len(w.list) - 1; n >= 0 {
		c := &w.list[n]
		between := g.First - c.Last - 1
		if g.Last < c.First {
			between = c.First - g.Last - 1
		}
		// Small pieces, so that a probe can take some of them.
		if between <= w.slack && between <= w.spare && c.extra+between <= 2*w.slack {
			c.First, c.Last = min(c.First, g.First), max(c.Last, g.Last)
			c.extra += between
			w.spare -= between
			return true
		}
	}
	if len(w.list) == w.limit {
		return false
	}
	w.list = append(w.list, candidate{Range: g.Range})
	return true
}

// choose merges as many candidates from the head of list as go into MaxRanges ranges with at most
// budget ids in between, or some fewer, and returns the ranges and how many candidates they hold.
func (limits mergeLimits) choose(list []candidate, budget int) ([]source.Range, int) {
	if len(list) == 0 {
		return nil, 0
	}
	m := newMerger(list, limits.ranges)
	// The first candidate always fits.
	few, many := 1, len(list)+1
	for n := len(list); many-few > 1+few/16; n = (few + many) / 2 {
		if m.merge(n) <= uint64(budget) {
			few = n
		} else {
			many = n
		}
	}
	m.merge(few)
	return source.JoinRanges(m.ranges, m.distance), few
}

// merger merges the first of some candidates.
type merger struct {
	// sorted are the candidates in ascending order; rank is where each stood in the list.
	sorted []candidate
	limit  int
	// ranges are the union of those merged, distance is up to how far apart they must be joined.
	ranges    []source.Range
	distance  uint64
	distances []uint64
}

func newMerger(list []candidate, limit int) *merger {
	m := &merger{sorted: slices.Clone(list), limit: limit, ranges: make([]source.Range, 0, len(list))}
	for i := range m.sorted {
		m.sorted[i].rank = i
	}
	slices.SortFunc(m.sorted, func(a, b candidate) int { return cmp.Compare(a.First, b.First) })
	return m
}

// merge unites the first n candidates and returns how many ids that are not missing their ranges
// hold once joined, at most.
func (m *merger) merge(n int) (cost uint64) {
	m.ranges, m.distances, m.distance = m.ranges[:0], m.distances[:0], 0
	for _, c := range m.sorted {
		if c.rank >= n {
			continue
		}
		cost += c.extra
		if k := len(m.ranges) - 1; k >= 0 && c.First <= m.ranges[k].Last {
			m.ranges[k].Last = max(m.ranges[k].Last, c.Last)
			continue
		} else if k >= 0 {
			m.distances = append(m.distances, c.First-m.ranges[k].Last-1)
		}
		m.ranges = append(m.ranges, c.Range)
	}
	over := len(m.ranges) - m.limit
	if over <= 0 {
		return cost
	}
	m.distance = nth(m.distances, over-1)
	for _, d := range m.distances {
		if d > m.distance {
			continue
		}
		if cost += d; cost < d {
			return 1<<64 - 1
		}
	}
	return cost
}

// nth returns the value that would stand at index i if list were sorted. It reorders list.
func nth(list []uint64, i int) uint64 {
	for low, high := 0, len(list)-1; low < high; {
		pivot := list[low+(high-low)/2]
		a, b := low, high
		for a <= b {
			for list[a] < pivot {
				a++
			}
			for list[b] > pivot {
				b--
			}
			if a <= b {
				list[a], list[b] = list[b], list[a]
				a++
				b--
			}
		}
		switch {
		case i <= b:
			high = b
		case i >= a:
			low = a
		default:
			return list[i]
		}
	}
	return list[i]
}
