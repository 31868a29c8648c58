package ledger

import (
	"time"

	"bridge/source"
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
	t := l.clock.tick(now)
	m, pending := l.state.missing, &l.state.pending
	var s Stats
	spans := l.state.hot(t)
	for _, span := range spans {
		s.Hot += m.count(span)
	}
	for k, at := range m.segments {
		ids := m.wide.segment(k)
		if expired := (source.Range{First: ids.First, Last: min(at.expired, ids.Last)}); !expired.Empty() {
			s.Unpolled += m.count(expired) - pending.count(m, expired)
		}
		if polled := l.state.polled(k); !polled.Empty() {
			s.Cold += m.count(polled)
			s.Ranges += m.gaps(polled)
		}
	}
	s.Cold -= s.Hot
	for _, one := range pending.list {
		if one.shown {
			s.Pending += m.count(one.Range)
		}
		for _, part := range outside(nil, []source.Range{one.Range}, spans) {
			n := m.count(part)
			s.Hot += n
			// A pending range lies in one segment.
			expired := part.Intersect(source.Range{Last: m.segments[m.wide.segmentOf(part.First)].expired})
			if !expired.Empty() {
				n -= m.count(expired)
				s.Ranges += m.gaps(expired)
			}
			s.Cold -= n
		}
	}
	if gaps := l.Gaps(1); len(gaps) > 0 {
		s.Oldest = gaps[0].Missed
	}
	// Behind the counts, which bring the gaps into the form in which they stay.
	s.Bytes = m.leaves.size() + cap(pending.list)*40 + cap(l.state.highs)*16
	return s
}

// Gaps returns the lowest gaps that are polled, in ascending order, at most limit of them; a limit
// of 0 returns all. They are the oldest of their segments.
func (l *Ledger) Gaps(limit int) []Gap {
	var gaps []Gap
	m := l.state.missing
	for k := range m.segments {
		ids := l.state.polled(k)
		if ids.Empty() {
			continue
		}
		m.ascend(ids.First, func(g gap) bool {
			if g.First > ids.Last {
				return false
			}
			gaps = append(gaps, l.clock.gap(g))
			return len(gaps) != limit
		})
		if len(gaps) == limit && limit > 0 {
			break
		}
	}
	return gaps
}

// Wide returns the wide gaps whose low ends are polled whatever their age, ascending. The id after
// each may be a stray one.
func (l *Ledger) Wide() []Gap {
	var gaps []Gap
	for _, w := range l.state.missing.wide {
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
func (l *Ledger) Pending(atLeast time.Duration, limit int, now time.Time) []Pending {
	t := l.clock.tick(now)
	var list []Pending
	for _, one := range l.state.pending.list {
		if one.shown && t-one.since >= atLeast.Microseconds() && l.state.missing.any(one.Range) {
			list = append(list, Pending{Range: one.Range, Since: l.clock.time(one.since)})
			if len(list) == limit {
				break
			}
		}
	}
	return list
}
