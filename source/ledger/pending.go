package ledger

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"bridge/source"
)

// pendingRange is a range whose missing ids are hot whatever their age: they are pending, or were
// not long ago, or come next in a block of ids that a writer uses up.
type pendingRange struct {
	source.Range
	// since is when the ids were first seen pending, seen when last.
	since, seen int64
	// shown says that the last evidence showed the ids, block that a writer seems to use them up.
	shown, block bool
	arrival      arrival
}

// arrival says whether rows of a pending range have appeared lately.
type arrival uint8

const (
	// arrivedNot: not since the evidence before the last one, or never.
	arrivedNot arrival = iota
	// arrivedBefore: not since the last evidence.
	arrivedBefore
	// arrivedNow: since the last evidence.
	arrivedNow
)

// next is what becomes of a with an evidence.
func (a arrival) next() arrival {
	if a == arrivedNow {
		return arrivedBefore
	}
	return arrivedNot
}

const (
	// maxPending bounds the pending ranges. Beyond it neighbours are joined, which keeps the ids
	// between them hot too.
	maxPending = 4096
	// pendingReach is how many seen ids may lie between two ids of one pending range.
	pendingReach = 64
	// blockFor is how long the rest of a block is polled after an id of it was filled, even where
	// not all hot ids fit into a probe.
	blockFor = time.Hour
)

// pendingList has the pending ranges, ascending and disjoint.
type pendingList struct {
	list []pendingRange
	// young are missing ids whose rows were read since the last evidence and are too young to be
	// published: they are not pending although the next evidence shows them.
	young []uint64
	// linger is how long ids stay hot after they were last seen pending.
	linger int64
}

// index returns the index of the first range that ends at or above id.
func (p *pendingList) index(id uint64) int {
	return sort.Search(len(p.list), func(i int) bool { return p.list[i].Last >= id })
}

// at returns the range that has id, nil where none has.
func (p *pendingList) at(id uint64) *pendingRange {
	if i := p.index(id); i < len(p.list) && p.list[i].First <= id {
		return &p.list[i]
	}
	return nil
}

// overlaps reports whether an id of r is in a pending range.
func (p *pendingList) overlaps(r source.Range) bool {
	i := p.index(r.First)
	return i < len(p.list) && p.list[i].First <= r.Last
}

// count returns how many missing ids of r are in pending ranges.
func (p *pendingList) count(missing *gapSet, r source.Range) (n uint64) {
	for i := p.index(r.First); i < len(p.list) && p.list[i].First <= r.Last; i++ {
		n += missing.count(p.list[i].Intersect(r))
	}
	return n
}

// ranges returns the ranges alone.
func (p *pendingList) ranges() []source.Range {
	ranges := make([]source.Range, 0, len(p.list))
	for _, one := range p.list {
		ranges = append(ranges, one.Range)
	}
	return ranges
}

// appeared notes that a committed read has the row with this id.
func (p *pendingList) appeared(id uint64) {
	if one := p.at(id); one != nil {
		one.shown, one.arrival = false, arrivedNow
	}
}

// arriving reports whether ids of a range are missing of which rows have appeared.
func (p *pendingList) arriving(missing *gapSet) bool {
	return slices.ContainsFunc(p.list, func(one pendingRange) bool {
		return one.arrival != arrivedNot && missing.any(one.Range)
	})
}

// filled notes that id is handed over: its transaction has committed, and the next evidence tells
// which ids are still pending.
func (p *pendingList) filled(id uint64) {
	if one := p.at(id); one != nil {
		one.shown = false
	}
}

// follow makes rest, the missing ids after an id that was filled just now, hot: a writer uses the
// ids of its block one after the other.
func (p *pendingList) follow(id uint64, rest source.Range, t int64) {
	if one := p.at(id); one != nil && one.block {
		if one.Last == id {
			i := p.index(id)
			p.list = slices.Delete(p.list, i, i+1)
		} else {
			// The writer will not use what it skipped.
			one.First, one.seen = id+1, t
		}
	}
	if rest.Empty() {
		return
	}
	i := p.index(rest.First)
	if i < len(p.list) && p.list[i].First <= rest.Last {
		if p.list[i].block {
			p.list[i].seen = t
		}
		return
	}
	p.list = boundPending(slices.Insert(p.list, i, pendingRange{Range: rest, since: t, seen: t, block: true}))
}

// lingers reports whether one is hot although it is vacant.
func (p *pendingList) lingers(one pendingRange, t int64) bool {
	if one.block {
		return t-one.seen < blockFor.Microseconds()
	}
	return t-one.seen < p.linger
}

// observe brings the list up to date with an evidence.
func (p *pendingList) observe(missing *gapSet, e Evidence, t int64) {
	next := p.shownBy(missing, e, t)
	renewed := make([]source.Range, 0, len(next))
	for _, one := range next {
		renewed = append(renewed, one.Range)
	}
	for _, old := range p.list {
		split(old.Range, renewed, func(part source.Range, renewed bool) {
			if renewed {
				return
			}
			split(part, e.Ranges, func(part source.Range, read bool) {
				one := old
				one.Range = part
				if read && old.block && part.Last < old.Last {
					return // The writer skipped it.
				}
				if read {
					one.shown = false
					if !p.lingers(one, t) {
						return
					}
				}
				if missing.any(part) {
					next = append(next, one)
				}
			})
		})
	}
	slices.SortFunc(next, func(a, b pendingRange) int { return cmp.Compare(a.First, b.First) })
	p.list = boundPending(next)
}

// shownBy returns pending ranges of the missing ids that e shows.
func (p *pendingList) shownBy(missing *gapSet, e Evidence, t int64) []pendingRange {
	slices.Sort(p.young)
	var list []pendingRange
	i, old, within, before := 0, 0, -1, uint64(0)
	missing.within(e.Ranges, func(g gap, of int) {
		if of != within {
			within, before = of, 0
		}
		i = seek(e.IDs, i, max(g.First, e.Ranges[of].First))
		for ; i < len(e.IDs) && e.IDs[i] <= min(g.Last, e.Ranges[of].Last); i++ {
			id := e.IDs[i]
			one := pendingRange{Range: source.Range{First: id, Last: id}, since: t, seen: t}
			for old < len(p.list) && p.list[old].Last < id {
				old++
			}
			_, young := slices.BinarySearch(p.young, id)
			one.shown = !young
			if old < len(p.list) && p.list[old].First <= id {
				was := p.list[old]
				if was.shown || was.arrival != arrivedNot {
					one.since = was.since
				}
				one.shown, one.arrival = one.shown && was.arrival != arrivedNow, was.arrival.next()
			}
			if n := len(list) - 1; n >= 0 && list[n].joins(one, before == list[n].Last && id == g.First) {
				list[n].Last = id
				continue
			}
			list = append(list, one)
		}
		before = g.Last
	})
	p.young = p.young[:0]
	return list
}

// joins reports whether next, a single id, continues p: it follows at once, or only seen ids lie
// between.
func (p pendingRange) joins(next pendingRange, seenBetween bool) bool {
	return p.shown == next.shown && p.since == next.since &&
		(p.Last+1 == next.First || seenBetween && next.First-p.Last <= pendingReach)
}

// boundPending joins neighbours, the nearest first, until there are no more than maxPending.
func boundPending(list []pendingRange) []pendingRange {
	for reach := uint64(pendingReach); len(list) > maxPending; reach *= 8 {
		kept := list[:1]
		for _, p := range list[1:] {
			last := &kept[len(kept)-1]
			if p.First-last.Last > reach {
				kept = append(kept, p)
				continue
			}
			last.Last = p.Last
			last.since, last.seen = min(last.since, p.since), max(last.seen, p.seen)
			last.shown, last.block, last.arrival = last.shown || p.shown, last.block || p.block, max(last.arrival, p.arrival)
		}
		list = kept
		if reach >= 1<<60 {
			break
		}
	}
	return list
}
