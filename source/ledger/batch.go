package ledger

import (
	"slices"
	"sort"
	"time"

	"bridge/source"
)

// FillAll removes missing ids that lie in ranges, which must be ascending and disjoint: the bus
// holds their rows. It costs one pass over the parts that ranges touch.
func (l *Ledger) FillAll(ranges []source.Range, now time.Time) {
	l.state.fillAll(source.RangesThrough(ranges, l.state.position), l.clock.tick(now))
}

// Pass is Advance with ranges of ids that are handed over, which must be ascending and disjoint.
func (l *Ledger) Pass(through uint64, handedOver []source.Range, now time.Time) {
	if through > l.state.position {
		l.state.pass(through, source.RangesThrough(handedOver, through), l.clock.tick(now))
	}
}

// EndPolling ends the polling of the missing ids at or below id, except those that are pending and
// the fronts of wide gaps. They stay missing.
func (l *Ledger) EndPolling(id uint64) {
	for k := range l.state.missing.segments {
		at := &l.state.missing.segments[k]
		if ids := l.state.missing.wide.segment(k); ids.First <= id {
			at.expired = max(at.expired, min(id, ids.Last, l.state.position))
			at.observed = max(at.observed, at.expired)
			l.state.unsaved = true
		}
	}
}

// fillAll removes the missing ids in ranges, which end at the position.
func (s *state) fillAll(ranges []source.Range, t int64) {
	s.missing.removeAll(ranges, t)
	// Their transactions have committed: the next evidence tells which ids are still pending.
	for i := range s.pending.list {
		if one := &s.pending.list[i]; one.shown && len(overlap(ranges, one.Range)) > 0 {
			one.shown = false
		}
	}
}

// pass moves the position to through, which is above it and at or above handedOver.
func (s *state) pass(through uint64, handedOver []source.Range, t int64) {
	if s.noticed > s.position {
		s.missing.removeAll(source.RangesThrough(handedOver, s.noticed), t)
	}
	if through > s.noticed {
		n := s.notices(t)
		for _, r := range handedOver {
			n.see(r)
		}
		n.end(through)
	}
	s.position = through
	s.sure = max(s.sure, through)
}

// removeAll removes the ids of ascending, disjoint ranges from the set at the time t.
func (s *gapSet) removeAll(ranges []source.Range, t int64) {
	s.leaves.removeAll(ranges)
	if len(s.wide) == 0 {
		return
	}
	for i, r := range ranges {
		for k := s.wide.overlapping(r); k >= 0; k = s.wide.overlapping(r) {
			before := slices.Clone(s.wide)
			s.removeWide(k, r.Intersect(s.wide[k].Range), t)
			// What is no longer a wide gap is in leaves now.
			for _, w := range before {
				above := w.Intersect(source.Range{First: r.Last + 1, Last: 1<<64 - 1})
				if rest := overlap(ranges[i+1:], above); len(rest) > 0 && s.wide.index(above.First) < 0 {
					s.leaves.removeAll(rest)
				}
			}
		}
	}
}

// removeAll removes the ids of ascending, disjoint ranges from the leaves.
func (s *leafList) removeAll(rest []source.Range) {
	s.seal()
	s.at = -1
	for i := 0; len(rest) > 0; {
		if i = max(i, s.index(rest[0].First)); i == len(s.list) {
			return
		}
		before, last := len(s.list), s.list[i].Last
		if rest[0].First <= last && !s.subtract(i, rest) {
			// The part cannot be read: the ledger is not used again.
			return
		}
		// The leaf may have gone, or become several.
		i += 1 + len(s.list) - before
		for len(rest) > 0 && (rest[0].Last <= last || i < len(s.list) && rest[0].Last < s.list[i].First) {
			rest = rest[1:]
		}
	}
}

// overlap returns those of ascending ranges that overlap r, which may be empty.
func overlap(ranges []source.Range, r source.Range) []source.Range {
	if r.Empty() {
		return nil
	}
	from := sort.Search(len(ranges), func(i int) bool { return ranges[i].Last >= r.First })
	to := sort.Search(len(ranges), func(i int) bool { return ranges[i].First > r.Last })
	return ranges[from:max(from, to)]
}
