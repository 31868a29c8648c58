package ledger

import (
	"cmp"
	"slices"
	"time"

	"example.org/bridge/source"
)

// Stats describes a ledger at one moment.
type Stats struct {
	// Hot and Cold are the numbers of missing ids that are polled, Pending how many of the hot ones
	// the last evidence showed.
	Hot, Cold, Pending uint64
	// Unpolled is the number of missing ids that are no longer polled, without the fronts of wide
	// gaps.
	Unpolled uint64
	// Ranges is how many gaps are polled.
	Ranges int
	// Oldest is when the first of them was missed, zero when there is none.
	Oldest time.Time
	// Bytes is the memory that they need.
	Bytes int
}

// Stats describes the ledger at now. It costs some microseconds for each hundred thousand gaps.
func (l *Ledger) Stats(now time.Time) Stats {
	m, pending := l.state.missing, &l.state.pending
	// count counts the ids and gaps of ranges and of the pending ranges.
	count := func(ranges []source.Range) (ids uint64, gaps int) {
		for _, one := range pending.list {
			ranges = append(ranges, one.Range)
		}
		slices.SortFunc(ranges, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
		for _, r := range source.JoinRanges(ranges, 0) {
			n, k := m.count(r)
			ids, gaps = ids+n, gaps+k
		}
		return ids, gaps
	}
	polled := make([]source.Range, 0, len(m.segments))
	for k := range m.segments {
		if r := l.state.polled(k); !r.Empty() {
			polled = append(polled, r)
		}
	}
	var s Stats
	s.Hot, _ = count(l.state.hot(l.clock.tick(now)))
	s.Cold, s.Ranges = count(polled)
	all, _ := m.count(source.Range{Last: 1<<64 - 1})
	s.Unpolled = all - s.Cold
	s.Cold -= s.Hot
	for _, one := range pending.list {
		if one.shown {
			n, _ := m.count(one.Range)
			s.Pending += n
		}
	}
	if gaps := l.Gaps(1); len(gaps) > 0 {
		s.Oldest = gaps[0].Missed
	}
	// Behind the counts, which bring the gaps into the form in which they stay.
	s.Bytes = m.size() + cap(pending.list)*40 + cap(l.state.highs)*16
	return s
}

// Gaps returns the lowest gaps that are polled, in ascending order, at most limit of them; a limit
// of 0 returns all. They are the oldest of their segments.
func (l *Ledger) Gaps(limit int) (gaps []Gap) {
	for k := range l.state.missing.segments {
		for g := range l.state.missing.ascend(l.state.polled(k)) {
			if gaps = append(gaps, l.clock.gap(g)); len(gaps) == limit {
				return gaps
			}
		}
	}
	return gaps
}

// Wide returns the wide gaps whose low ends are polled whatever their age, ascending. The id after
// each may be a stray one.
func (l *Ledger) Wide() (gaps []Gap) {
	for _, w := range l.state.missing.wide() {
		gaps = append(gaps, l.clock.gap(w))
	}
	return gaps
}

// Pending is a range of ids that the last evidence showed uncommitted: their transaction is open.
type Pending struct {
	source.Range
	// Since is when they were first seen pending.
	Since time.Time
}

// Pending returns the ranges that have been pending for at least this long at now, ascending, at
// most limit of them; a limit of 0 returns all.
func (l *Ledger) Pending(atLeast time.Duration, limit int, now time.Time) (list []Pending) {
	t := l.clock.tick(now)
	for _, one := range l.state.pending.list {
		if one.shown && t-one.since >= atLeast.Microseconds() && l.state.missing.any(one.Range) {
			if list = append(list, Pending{one.Range, l.clock.time(one.since)}); len(list) == limit {
				break
			}
		}
	}
	return list
}
