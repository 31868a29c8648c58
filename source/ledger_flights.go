package source

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// flight is a range whose missing ids are hot whatever their age: in flight at the last evidence, or vacant since but not for long,
// or next in a block of ids that a writer is using up.
type flight struct {
	first, last uint64
	// since is when the ids were first seen in flight, seen when last.
	since, seen int64
	// flying says that the last evidence showed the ids, block that a writer seems to be using them up.
	flying, block bool
}

const (
	// maxFlights bounds the flights; beyond it neighbours are taken together, which keeps the ids between them hot too.
	maxFlights = 4096
	// flightReach is how many seen ids may lie between two ids of one flight.
	flightReach = 64
	// blockFor is how long the rest of a block is looked for at every poll after an id of it was filled, even where
	// there is no place for all that is hot.
	blockFor = time.Hour
)

func (f flight) ids() Range { return Range{f.first, f.last} }

// flown reports whether an id of r is hot because it was in flight.
func (l *Ledger) flown(r Range) bool {
	i := l.flightAt(r.First)
	return i < len(l.flights) && l.flights[i].first <= r.Last
}

// flightAt returns the index of the first flight that ends at or above id.
func (l *Ledger) flightAt(id uint64) int {
	return sort.Search(len(l.flights), func(i int) bool { return l.flights[i].last >= id })
}

// follow makes the rest of a run hot whose id was filled just now: a writer uses the ids of its block one after the other.
func (l *Ledger) follow(id uint64, rest Range, t int64) {
	i := l.flightAt(id)
	if i < len(l.flights) && l.flights[i].first <= id && l.flights[i].block {
		if l.flights[i].last == id {
			l.flights = slices.Delete(l.flights, i, i+1)
		} else {
			// What the writer left out it will not use.
			l.flights[i].first, l.flights[i].seen = id+1, t
		}
	}
	if rest.First > rest.Last {
		return
	}
	i = l.flightAt(rest.First)
	if i < len(l.flights) && l.flights[i].first <= rest.Last {
		if l.flights[i].block {
			l.flights[i].seen = t
		}
		return
	}
	l.flights = boundFlights(slices.Insert(l.flights, i, flight{first: rest.First, last: rest.Last, since: t, seen: t, block: true}))
}

// lingers reports whether f is hot although it is vacant.
func (l *Ledger) lingers(f flight, t int64) bool {
	if f.block {
		return t-f.seen < blockFor.Microseconds()
	}
	return t-f.seen < l.linger
}

// observe brings the flights up to date with an evidence.
func (l *Ledger) observe(e Evidence, t int64) {
	next := l.found(e, t)
	taken := make([]Range, 0, len(next))
	for _, f := range next {
		taken = append(taken, f.ids())
	}
	for _, old := range l.flights {
		split(old.ids(), taken, func(part Range, taken bool) {
			if taken {
				return
			}
			split(part, e.Ranges, func(part Range, judged bool) {
				f := old
				f.first, f.last = part.First, part.Last
				if judged && old.block && part.Last < old.last {
					return // what the writer left out
				}
				if judged {
					f.flying = false
					if !l.lingers(f, t) {
						return
					}
				}
				if l.missing.any(part) {
					next = append(next, f)
				}
			})
		})
	}
	slices.SortFunc(next, func(a, b flight) int { return cmp.Compare(a.first, b.first) })
	l.flights = boundFlights(next)
}

// found returns flights of the missing ids that e shows.
func (l *Ledger) found(e Evidence, t int64) []flight {
	slices.Sort(l.young)
	var flights []flight
	i, old, within, before := 0, 0, -1, uint64(0)
	l.missing.within(e.Ranges, func(r run, of int) {
		if of != within {
			within, before = of, 0
		}
		i = seek(e.IDs, i, max(r.first, e.Ranges[of].First))
		for ; i < len(e.IDs) && e.IDs[i] <= min(r.last, e.Ranges[of].Last); i++ {
			id := e.IDs[i]
			f := flight{first: id, last: id, since: t, seen: t}
			for old < len(l.flights) && l.flights[old].last < id {
				old++
			}
			if old < len(l.flights) && l.flights[old].first <= id && l.flights[old].flying {
				f.since = l.flights[old].since
			}
			_, young := slices.BinarySearch(l.young, id)
			f.flying = !young
			if n := len(flights) - 1; n >= 0 && flights[n].joins(f, before == flights[n].last && id == r.first) {
				flights[n].last = id
				continue
			}
			flights = append(flights, f)
		}
		before = r.last
	})
	l.young = l.young[:0]
	return flights
}

// joins reports whether next, a single id, continues f: it follows at once, or nothing but seen ids lie between.
func (f flight) joins(next flight, seenBetween bool) bool {
	return f.flying == next.flying && f.since == next.since &&
		(f.last+1 == next.first || seenBetween && next.first-f.last <= flightReach)
}

// seek returns the index of the first of the ascending ids at or after i that is at or above id.
func seek(ids []uint64, i int, id uint64) int {
	step := 1
	for i+step < len(ids) && ids[i+step] < id {
		i += step
		step *= 2
	}
	end := min(i+step+1, len(ids))
	return i + sort.Search(end-i, func(j int) bool { return ids[i+j] >= id })
}

// split calls yield for the parts of r, in ascending order, that lie inside and outside of the ascending, disjoint ranges.
func split(r Range, by []Range, yield func(part Range, inside bool)) {
	i := sort.Search(len(by), func(i int) bool { return by[i].Last >= r.First })
	for ; i < len(by) && by[i].First <= r.Last; i++ {
		if by[i].First > r.First {
			yield(Range{r.First, by[i].First - 1}, false)
			r.First = by[i].First
		}
		if by[i].Last >= r.Last {
			yield(r, true)
			return
		}
		yield(Range{r.First, by[i].Last}, true)
		r.First = by[i].Last + 1
	}
	yield(r, false)
}

// boundFlights takes neighbours together, the nearest first, until there are no more than maxFlights.
func boundFlights(list []flight) []flight {
	for reach := uint64(flightReach); len(list) > maxFlights; reach *= 8 {
		kept := list[:1]
		for _, f := range list[1:] {
			last := &kept[len(kept)-1]
			if f.first-last.last > reach {
				kept = append(kept, f)
				continue
			}
			last.last = f.last
			last.since, last.seen = min(last.since, f.since), max(last.seen, f.seen)
			last.flying, last.block = last.flying || f.flying, last.block || f.block
		}
		list = kept
		if reach >= 1<<60 {
			break
		}
	}
	return list
}
