package ledger

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"example.org/bridge/source"
)

// state has the missing ids and their evidence, at times in microseconds of the ledger's clock.
type state struct {
	missing *set
	pending pendingList
	highs   highs
	// position is the read position. missing knows ids up to noticed, which is at or above that.
	// Every missing id up to sure was in an evidence since the last Notice.
	position, noticed, sure uint64
	// hotFor is the hot time of an id that was never pending, ttl of a vacant id in all.
	hotFor, ttl     int64
	hold, segmented bool
	// unsaved says that polling of ids ended since the last Changed.
	unsaved bool
}

func newState(opts Options, position uint64) state {
	s := state{
		missing: newSet(opts.Load), position: position, noticed: position, sure: position,
		hotFor: opts.HotFor.Microseconds(), ttl: max(opts.GapTTL, opts.HotFor).Microseconds(),
		hold: opts.Policy == GapHold, segmented: opts.Order == source.OrderSegmented,
	}
	s.missing.segments[0] = segment{observed: position, expired: position}
	s.pending.linger, s.pending.partial = s.hotFor, s.ttl
	if s.hold {
		// No row waits that long for an id that may be rolled back by now.
		s.pending.partial = s.hotFor
	}
	if s.segmented {
		s.hotFor = s.ttl
	}
	return s
}

// notice makes the ids up to through missing, but those in seen, which are no longer missing.
func (s *state) notice(through uint64, seen []source.Range, t int64) {
	m := s.missing
	if s.noticed > s.position {
		m.removeAll(source.RangesThrough(seen, s.noticed), t)
	}
	if through <= s.noticed {
		return
	}
	next := s.noticed + 1
	missed, holes := m.newest(m.top(), -1<<63), false
	miss := func(ids source.Range) {
		if !ids.Empty() {
			missed, holes = max(missed, s.highs.at(ids.Last, t)), true
			m.add(gap{ids, missed})
		}
	}
	for _, r := range seen {
		if r.Last >= next && next > 0 {
			miss(source.Range{First: next, Last: max(r.First, 1) - 1})
			next = r.Last + 1
		}
	}
	if next > 0 {
		miss(source.Range{First: next, Last: through})
	}
	if at := &m.segments[m.top()]; !holes && at.observed == s.noticed {
		at.observed = through
	}
	s.noticed = through
	s.highs = append(s.highs[:0], s.highs.above(through)...)
}

// hot returns the ids of each segment from which on all missing ids are hot, ascending.
func (s *state) hot(t int64) []source.Range {
	m := s.missing
	spans := make([]source.Range, 0, len(m.segments))
	for k, at := range m.segments {
		ids := m.segment(k)
		cold := max(min(m.missedBy(k, t-s.hotFor), at.observed), at.expired)
		if s.hold {
			// Reach needs evidence of every id above the position, in whichever segment.
			cold = min(cold, s.position)
		}
		if ids.Last = min(ids.Last, s.noticed); cold < ids.Last {
			ids.First = max(ids.First, cold+1)
			spans = append(spans, ids)
		}
	}
	return spans
}

// polled returns the ids of segment k that are polled for their age, empty where there are none.
func (s *state) polled(k int) source.Range {
	ids, expired := s.missing.segment(k), s.missing.segments[k].expired
	if expired >= ids.Last {
		return source.Range{First: 1}
	}
	ids.First = max(ids.First, expired+1)
	return ids
}

func (s *state) observe(e Evidence, c *clock) (ended []Unpolled) {
	t := c.tick(e.Now)
	s.pending.observe(s.missing, e, t)
	for k := range s.missing.segments {
		at := &s.missing.segments[k]
		at.observed = s.covered(k, at.observed, e.Ranges)
		// Polling ends after the whole TTL. Ids that are pending stay hot.
		limit := min(s.missing.missedBy(k, t-s.ttl), s.position)
		if limit <= at.expired {
			continue
		}
		ids := source.Range{First: at.expired + 1, Last: min(s.covered(k, at.expired, e.Ranges), limit)}
		if ids.Empty() {
			continue
		}
		at.expired, at.observed = ids.Last, max(at.observed, ids.Last)
		s.unsaved = true
		all, _ := s.missing.count(ids)
		if u := (Unpolled{Range: ids, IDs: all - s.pending.count(s.missing, ids)}); u.IDs > 0 {
			for g := range s.missing.ascend(ids) {
				u.Missed = c.time(g.missed)
				break
			}
			ended = append(ended, u)
		}
		s.missing.compact(k, ids, s.pending.overlaps)
	}
	s.sure = max(s.sure, s.covered(s.missing.top(), s.position, e.Ranges))
	return ended
}

// covered returns the highest id up to which ranges have every missing id of segment k above from.
func (s *state) covered(k int, from uint64, ranges []source.Range) uint64 {
	through := min(s.noticed, s.missing.segment(k).Last)
	if from >= through {
		return from
	}
	i := 0
	for g := range s.missing.ascend(source.Range{First: from + 1, Last: through}) {
		for i < len(ranges) && ranges[i].Last < g.First {
			i++
		}
		if i == len(ranges) || ranges[i].First > g.First {
			return g.First - 1
		}
		if ranges[i].Last < g.Last {
			return ranges[i].Last
		}
	}
	return through
}

const (
	// sweepIDs and sweepRanges bound one part of a sweep, as MaxIDs and MaxRanges bound a probe.
	sweepIDs    = 100_000
	sweepRanges = 512
)

type sweeper struct {
	// every is the time between the beginnings of two sweeps, in microseconds.
	every   int64
	running bool
	// from is the first id that was not swept yet.
	from  uint64
	began int64
	ever  bool
}

// next returns the next part of a sweep, nil when no sweep is due.
func (w *sweeper) next(s *state, t int64) (ranges []source.Range) {
	if !w.running {
		if w.ever && t-w.began < w.every {
			return nil
		}
		w.running, w.from, w.began, w.ever = true, 1, t, true
	}
	cold := func(yield func(gap) bool) {
		for k, at := range s.missing.segments {
			// Missing for longer than the hot time, and still polled.
			ids := source.Range{First: max(at.expired+1, w.from), Last: min(s.missing.missedBy(k, t-s.hotFor), s.position)}
			if at.expired >= ids.Last {
				continue
			}
			for g := range s.missing.ascend(ids) {
				if !yield(g) {
					return
				}
			}
		}
	}
	for _, c := range gather(cold, sweepRanges, sweepIDs/sweepRanges, sweepIDs) {
		ranges = append(ranges, c.Range)
	}
	w.running = len(ranges) > 0
	return ranges
}

func (w *sweeper) read(ranges []source.Range) {
	if n := len(ranges); n > 0 && w.running {
		w.from = ranges[n-1].Last + 1
		w.running = w.from != 0
	}
}

// overlap reports whether one of ascending ranges overlaps r.
func overlap(ranges []source.Range, r source.Range) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Last >= r.First })
	return i < len(ranges) && ranges[i].First <= r.Last
}

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
