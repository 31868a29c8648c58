package source

import (
	"cmp"
	"slices"
	"time"
)

// Probe says what to look for at one poll. Its ranges are ascending and disjoint. They may hold ids that are not missing: neighbours
// are taken together so that one statement with a bounded number of ranges reads them.
type Probe struct {
	// Rows are the ranges whose committed records to read, in which Missing tells what is late. Where a limit cuts the read off
	// tell CutOff, so that the next one goes on there; a limit above MaxRows records seldom does.
	Rows []Range
	// IDs are the ranges whose ids to read afterwards, for Judge. They hold those of Rows, except where a cut evidence is
	// continued.
	IDs []Range
}

// Clip returns the part of ranges up to through: what was read of them when a limit cut the read off after the id through.
func Clip(ranges []Range, through uint64) []Range {
	for i, r := range ranges {
		if r.Last > through {
			ranges = slices.Clone(ranges[:i])
			if r.First <= through {
				ranges = append(ranges, Range{r.First, through})
			}
			return ranges
		}
	}
	return ranges
}

// probeState remembers between probes.
type probeState struct {
	// last is the end of the last probe; resume is where the evidence of it was cut off, 0 when it was not.
	last, resume uint64
	// cut is where the read of rows was cut off, 0 when it was not.
	cut uint64
	// below and flight say where those hot ids begin that had no place in the last probe.
	below             uint64
	flight, rowFlight int
}

const (
	// maxCandidates bounds what a probe is chosen from.
	maxCandidates = 1024
	// freshFor is how long vacant ids come before older ones where not all have a place: an id that was handed out and not yet
	// inserted is inserted soon.
	freshFor = 2 * time.Second
	// wide is the least number of ids in a run that may be a block of a writer.
	wide = 64
)

// candidate is a range that may become part of a probe and how many ids in it are not missing.
type candidate struct {
	Range
	extra uint64
	rank  int
}

// Hot returns what to look for at this poll: every hot id, where they fit into MaxRanges ranges with no more ids in between than MaxRows
// and MaxIDs. Where they do not, those in flight, those never judged, the newest, and blocks come first, and the others
// take turns. It is empty when there are no hot ids. Call it once a poll.
func (l *Ledger) Hot(now time.Time) Probe {
	t := l.clock.tick(now)
	l.young = l.young[:0]
	from := l.hotFrom(t)
	list, fits := l.everything(from)
	ids, n := []Range(nil), 0
	if fits {
		ids, n = l.choose(list, l.opts.MaxIDs)
	}
	if n < len(list) || !fits {
		var turns rotation
		list, turns = l.urgent(from, t)
		ids, n = l.choose(list, l.opts.MaxIDs)
		l.turn(list, n, turns)
		list = list[turns.first:turns.rest]
	} else {
		l.probe.flight, l.probe.below = 0, 0
	}
	probe := Probe{Rows: l.rows(list), IDs: ids}
	if len(ids) > 0 {
		l.probe.last = ids[len(ids)-1].Last
		if rest := behind(ids, l.probe.resume); l.probe.resume > 0 && len(rest) > 0 {
			probe.IDs = rest
		}
	}
	return probe
}

// rows returns what to read of list with all columns.
func (l *Ledger) rows(list []candidate) []Range {
	rows, n := l.choose(list, l.opts.MaxRows)
	if n < len(list) {
		// What is not in flight has time until an evidence shows it.
		flights := l.takeFlights(nil, l.probe.rowFlight)
		rows, n = l.choose(append(flights, list...), l.opts.MaxRows)
		if len(l.flights) > 0 {
			l.probe.rowFlight = (l.probe.rowFlight + min(n, len(flights))) % len(l.flights)
		}
	} else {
		l.probe.rowFlight = 0
	}
	if l.opts.Policy == GapHold {
		// What lies behind the position is read with the page.
		rows = Clip(rows, l.position)
	}
	if l.probe.cut > 0 {
		if rest := behind(rows, l.probe.cut); len(rest) > 0 {
			rows = rest
		}
		l.probe.cut = 0
	}
	return rows
}

// CutOff notes that a limit cut off the read of the rows of a probe after the record with this id.
func (l *Ledger) CutOff(id uint64) { l.probe.cut = id }

// behind returns the part of ranges above id.
func behind(ranges []Range, id uint64) []Range {
	for len(ranges) > 0 && ranges[0].Last <= id {
		ranges = ranges[1:]
	}
	if len(ranges) > 0 && ranges[0].First <= id {
		ranges = slices.Clone(ranges)
		ranges[0].First = id + 1
	}
	return ranges
}

// hotFrom returns the id from which on all missing ids are hot.
func (l *Ledger) hotFrom(t int64) uint64 {
	cold := min(l.missing.through(t-l.hotFor), l.judged)
	if l.opts.Policy == GapHold {
		cold = min(cold, l.position)
	}
	return cold + 1
}

// everything returns all hot ranges, from being where they begin, and whether they are few enough to try.
func (l *Ledger) everything(from uint64) ([]candidate, bool) {
	if len(l.flights) > maxCandidates || l.missing.from(from) > maxCandidates {
		return nil, false
	}
	list := l.takeFlights(make([]candidate, 0, 64), 0)
	l.missing.ascend(from, func(r run) bool {
		list = append(list, candidate{Range: Range{max(r.first, from), r.last}})
		return true
	})
	return list, true
}

// takeFlights appends the flights, beginning with the i-th, at most maxCandidates of them.
func (l *Ledger) takeFlights(list []candidate, i int) []candidate {
	for n := range min(len(l.flights), maxCandidates) {
		list = append(list, candidate{Range: l.flights[(i+n)%len(l.flights)].ids()})
	}
	return list
}

// rotation says what of a list takes turns: the first candidates, the flights from one index to another, and all from rest on.
type rotation struct{ first, flights, flightsEnd, rest int }

// urgent returns hot ranges, the most urgent first. Those that take turns are in descending order; some of them, and of those never
// judged, come before all others, lest they never have their turn.
func (l *Ledger) urgent(from uint64, t int64) ([]candidate, rotation) {
	var r rotation
	top := l.noticed
	if l.probe.below >= from && l.probe.below < top {
		top = l.probe.below
	}
	w := l.walker(4)
	l.missing.descend(top, func(r run) bool { return r.first >= from && w.add(r) })
	list := w.list
	r.first = len(list)

	unjudged := l.judged + 1
	if l.opts.Policy == GapHold {
		unjudged = l.position + 1
	}
	w = l.walker(4)
	l.missing.ascend(unjudged, w.add)
	list = append(list, w.list...)

	r.flights = len(list)
	list = l.takeFlights(list, l.probe.flight)
	r.flightsEnd = len(list)

	w = l.walker(1)
	l.missing.descend(l.noticed, func(r run) bool { return t-r.missed < freshFor.Microseconds() && w.add(r) })
	list = append(append(list, w.list...), l.blocks(from, maxCandidates/4)...)

	r.rest = len(list)
	w = l.walker(1)
	if r.first > 0 {
		top = list[r.first-1].First - 1
	}
	l.missing.descend(top, func(r run) bool { return r.first >= from && w.add(r) })
	return append(list, w.list...), r
}

// turn notes what the next probe begins with when the first n of list had a place in this one.
func (l *Ledger) turn(list []candidate, n int, r rotation) {
	l.probe.below = 0
	if last := min(n, r.first) - 1; last >= 0 {
		l.probe.below = list[last].First - 1
	}
	if n > r.rest {
		l.probe.below = list[n-1].First - 1
	}
	if flights := min(n, r.flightsEnd) - r.flights; flights > 0 {
		l.probe.flight = (l.probe.flight + flights) % len(l.flights)
	}
}

// blocks returns the widest runs from an id on, at most n.
func (l *Ledger) blocks(from uint64, n int) []candidate {
	var list []candidate
	for i := len(l.missing.leaves) - 1; i >= 0 && len(list) < n; i-- {
		leaf := &l.missing.leaves[i]
		if leaf.last < from {
			break
		}
		if leaf.widest < wide {
			continue
		}
		leaf.each(func(r run) bool {
			if r.ids() >= wide && r.first >= from {
				list = append(list, candidate{Range: Range{r.first, r.last}})
			}
			return len(list) < n
		})
	}
	return list
}

// walker gathers runs into candidates.
type walker struct {
	list         []candidate
	limit        int
	slack, spare uint64
}

// walker returns a walker for a share of what goes into a probe.
func (l *Ledger) walker(share int) walker {
	return walker{
		limit: max(1, l.opts.MaxRanges/share),
		slack: max(1, uint64(l.opts.MaxIDs/l.opts.MaxRanges)),
		spare: uint64(l.opts.MaxIDs / share),
	}
}

// add takes the next run in either direction and reports whether there is room for more.
func (w *walker) add(r run) bool {
	if n := len(w.list) - 1; n >= 0 {
		c := &w.list[n]
		between := r.first - c.Last - 1
		if r.last < c.First {
			between = c.First - r.last - 1
		}
		// Small pieces, so that a probe can take some of them.
		if between <= w.slack && between <= w.spare && c.extra+between <= 2*w.slack {
			c.First, c.Last = min(c.First, r.first), max(c.Last, r.last)
			c.extra += between
			w.spare -= between
			return true
		}
	}
	if len(w.list) == w.limit {
		return false
	}
	w.list = append(w.list, candidate{Range: Range{r.first, r.last}})
	return true
}

// choose merges as many candidates from the head of list as go into MaxRanges ranges with at most budget ids in between, or some
// fewer, and returns the ranges and how many candidates they hold.
func (l *Ledger) choose(list []candidate, budget int) ([]Range, int) {
	if len(list) == 0 {
		return nil, 0
	}
	m := newMerger(list, l.opts.MaxRanges)
	// The first candidate always has a place.
	few, many := 1, len(list)+1
	for n := len(list); many-few > 1+few/16; n = (few + many) / 2 {
		if m.merge(n) <= uint64(budget) {
			few = n
		} else {
			many = n
		}
	}
	m.merge(few)
	return join(m.ranges, m.distance), few
}

// merger merges the first of some candidates.
type merger struct {
	// sorted are the candidates in ascending order; rank is where each stood in the list.
	sorted []candidate
	limit  int
	// ranges are the union of those merged, distance is up to how far apart they must be joined.
	ranges    []Range
	distance  uint64
	distances []uint64
}

func newMerger(list []candidate, limit int) *merger {
	m := &merger{sorted: slices.Clone(list), limit: limit, ranges: make([]Range, 0, len(list))}
	for i := range m.sorted {
		m.sorted[i].rank = i
	}
	slices.SortFunc(m.sorted, func(a, b candidate) int { return cmp.Compare(a.First, b.First) })
	return m
}

// merge unites the first n candidates and returns how many ids that are not missing their ranges hold once joined, at most.
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

// join takes ascending ranges together that overlap or have at most distance ids between them.
func join(ranges []Range, distance uint64) []Range {
	kept := ranges[:0]
	for _, r := range ranges {
		if n := len(kept) - 1; n >= 0 && (r.First <= kept[n].Last || r.First-kept[n].Last-1 <= distance) {
			kept[n].Last = max(kept[n].Last, r.Last)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}
