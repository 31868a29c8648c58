package source

import (
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
	// window says which part of a large flight is read.
	window uint64
}

const (
	// maxCandidates bounds what a probe is chosen from.
	maxCandidates = 1024
	// freshFor is how long vacant ids come before older ones where not all have a place: an id that was handed out and not yet
	// inserted is inserted soon.
	freshFor = 2 * time.Second
	// flightWindow is how many ids of a flight are read with all columns while no row of it has been found.
	flightWindow = 2048
	// wide is the least number of ids in a run that may be a block of a writer.
	wide = 64
)

// Hot returns what to look for at this poll: every hot id, where they fit into MaxRanges ranges with no more ids in between than MaxRows
// and MaxIDs. Where they do not, those never judged, those in flight, the newest, and blocks come first, and the others
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
		// What no evidence has shown yet may have committed since it was missed. Of the others, what is not in flight has time until
		// an evidence shows it.
		first := l.unjudged()
		unjudged := len(first)
		first = l.takeFlights(first, l.probe.rowFlight)
		rows, n = l.choose(append(first, list...), l.opts.MaxRows)
		if len(l.flights) > 0 {
			flights := min(n, len(first)) - unjudged
			l.probe.rowFlight = (l.probe.rowFlight + max(flights, 0)) % len(l.flights)
		}
	} else {
		l.probe.rowFlight = 0
	}
	rows = l.thin(rows)
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

// thin leaves of each large flight no more than a window in rows, at another place at every poll: a committed read of rows that are
// not committed yet costs the server as much as if they were. Once a row of the flight is found all of it is read.
func (l *Ledger) thin(rows []Range) []Range {
	var hidden []Range
	for _, f := range l.flights {
		if width := f.last - f.first; f.flying && width >= flightWindow {
			begin := f.first + l.probe.window*flightWindow%(width-width%flightWindow)
			if begin > f.first {
				hidden = append(hidden, Range{f.first, begin - 1})
			}
			if end := begin + flightWindow - 1; end < f.last {
				hidden = append(hidden, Range{end + 1, f.last})
			}
		}
	}
	if len(hidden) == 0 {
		return rows
	}
	l.probe.window++
	var thinned []Range
	for _, r := range rows {
		split(r, hidden, func(part Range, hidden bool) {
			if !hidden {
				thinned = append(thinned, part)
			}
		})
	}
	return thinned
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

	list = append(list, l.unjudged()...)

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

// unjudged returns the first hot ranges that no evidence has covered yet.
func (l *Ledger) unjudged() []candidate {
	from := l.judged + 1
	if l.opts.Policy == GapHold {
		from = l.position + 1
	}
	w := l.walker(4)
	l.missing.ascend(from, w.add)
	return w.list
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
