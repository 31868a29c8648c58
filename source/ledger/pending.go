package ledger

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"example.org/bridge/source"
)

// pendingRange is a range whose missing ids are hot whatever their age: they are pending, or were
// not long ago, or come next in a block of ids that a writer uses up.
type pendingRange struct {
	source.Range
	// since is when the ids were first seen pending, seen when last.
	since, seen int64
	// shown says that the last evidence showed the ids, whole that one which was not partial has;
	// block that a writer seems to use them up.
	shown, whole, block bool
	// arrived is 2 when a row has appeared since the last evidence, 1 since the one before, else 0.
	arrived uint8
}

const (
	// Beyond maxPending neighbours are joined, which keeps the ids between them hot too.
	maxPending = 4096
	// pendingReach is how many seen ids may lie between two ids of one pending range.
	pendingReach = 64
	// blockFor is how long the rest of a block is polled after an id of it was filled.
	blockFor = time.Hour
)

// pendingList has the pending ranges, ascending and disjoint.
type pendingList struct {
	list []pendingRange
	// young are missing ids whose rows were read since the last evidence and are too young to be
	// published: they are not pending although the next evidence shows them.
	young []uint64
	// linger is how long ids stay hot after they were last seen pending, partial the same of whole
	// ones for partial evidence.
	linger, partial int64
}

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

func (p *pendingList) overlaps(r source.Range) bool {
	i := p.index(r.First)
	return i < len(p.list) && p.list[i].First <= r.Last
}

func (p *pendingList) count(missing *set, r source.Range) (n uint64) {
	for i := p.index(r.First); i < len(p.list) && p.list[i].First <= r.Last; i++ {
		ids, _ := missing.count(p.list[i].Intersect(r))
		n += ids
	}
	return n
}

// makeHot makes rest, the missing ids after id, hot: a writer uses those of its block in turn.
func (p *pendingList) makeHot(id uint64, rest source.Range, t int64) {
	if one := p.at(id); one != nil && one.block {
		if one.Last == id {
			i := p.index(id)
			p.list = slices.Delete(p.list, i, i+1)
		} else {
			// The writer will not use the ids it skipped.
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

func (p *pendingList) observe(missing *set, e Evidence, t int64) {
	next := p.shownBy(missing, e, t)
	var renewed, parts []source.Range
	for _, one := range next {
		renewed = append(renewed, one.Range)
	}
	for _, old := range p.list {
		linger := p.linger
		switch {
		case old.block:
			linger = blockFor.Microseconds()
		case old.whole && e.Partial:
			linger = p.partial
		}
		parts = outside(parts[:0], []source.Range{old.Range}, renewed)
		for _, part := range parts {
			split(part, e.Ranges, func(part source.Range, read bool) {
				skipped := old.block && part.Last < old.Last
				if read && (skipped || t-old.seen >= linger) || !missing.any(part) {
					return
				}
				one := old
				one.Range, one.shown = part, one.shown && !read
				next = append(next, one)
			})
		}
	}
	slices.SortFunc(next, func(a, b pendingRange) int { return cmp.Compare(a.First, b.First) })
	p.list = boundPending(next)
}

func (p *pendingList) shownBy(missing *set, e Evidence, t int64) (list []pendingRange) {
	slices.Sort(p.young)
	ranges, old := e.Ranges, 0
	// The gap that has the last missing id, and the last id of the gap before it.
	g, before := source.Range{First: 1}, uint64(0)
	for _, id := range e.IDs {
		for len(ranges) > 0 && ranges[0].Last < id {
			ranges = ranges[1:]
		}
		if len(ranges) == 0 {
			break
		}
		if id < ranges[0].First {
			continue
		}
		if !g.Has(id) {
			ok := false
			if g, before, ok = missing.gapOf(id); !ok {
				continue
			}
		}
		one := pendingRange{Range: source.Range{First: id, Last: id}, since: t, seen: t, whole: !e.Partial}
		for old < len(p.list) && p.list[old].Last < id {
			old++
		}
		_, young := slices.BinarySearch(p.young, id)
		one.shown = !young
		if old < len(p.list) && p.list[old].First <= id {
			was := p.list[old]
			if was.shown || was.arrived > 0 {
				one.since = was.since
			}
			one.shown, one.arrived = one.shown && was.arrived < 2, was.arrived-min(was.arrived, 1)
			one.whole = one.whole || was.whole
		}
		if n := len(list) - 1; n >= 0 {
			// Only ids that are not missing lie between.
			seenBetween := id == g.First && before == list[n].Last && before >= ranges[0].First
			joins := list[n].Last+1 == id || seenBetween && id-list[n].Last <= pendingReach
			if joins && list[n].shown == one.shown && list[n].whole == one.whole && list[n].since == one.since {
				list[n].Last = id
				continue
			}
		}
		list = append(list, one)
	}
	p.young = p.young[:0]
	return list
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
			last.shown, last.whole, last.block = last.shown || p.shown, last.whole || p.whole, last.block || p.block
			last.arrived = max(last.arrived, p.arrived)
		}
		list = kept
		if reach >= 1<<60 {
			break
		}
	}
	return list
}
