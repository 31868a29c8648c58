package ledger

import (
	"slices"

	"bridge/source"
)

// state is which ids are missing and what is known of them, at times in microseconds of the
// ledger's clock.
type state struct {
	missing *gapSet
	pending pendingList
	highs   highs
	// position is the read position. missing knows ids up to noticed, which is at or above that.
	// Every missing id up to sure was in an evidence since the last Notice.
	position, noticed, sure uint64
	// hotFor is the hot time of an id that was never pending, ttl of a vacant id in all.
	hotFor, ttl int64
	// hold and segmented are GapHold and OrderSegmented.
	hold, segmented bool
	// unsaved says that polling of ids ended since the last Changed.
	unsaved bool
}

func newState(opts Options, position uint64) state {
	s := state{
		missing: newGapSet(), position: position, noticed: position, sure: position,
		hotFor: opts.HotFor.Microseconds(), ttl: max(opts.GapTTL, opts.HotFor).Microseconds(),
		hold: opts.Policy == GapHold, segmented: opts.Order == source.OrderSegmented,
	}
	s.missing.segments[0] = segment{observed: position, expired: position}
	s.missing.leaves.store.load = opts.Load
	s.pending.linger = s.hotFor
	if s.segmented {
		s.hotFor = s.ttl
	}
	return s
}

// advance moves the position to through, which is above it.
func (s *state) advance(through uint64, handedOver []uint64, t int64) {
	n, found := slices.BinarySearch(handedOver, through)
	if found {
		n++
	}
	s.notice(through, handedOver[:n], t)
	s.position = through
	s.sure = max(s.sure, through)
}

// notice makes the ids up to through missing that are not in seen, and those in seen not missing.
func (s *state) notice(through uint64, seen []uint64, t int64) {
	known, _ := slices.BinarySearch(seen, s.noticed)
	if s.noticed > s.position {
		for _, id := range seen[:min(known+1, len(seen))] {
			s.missing.remove(id, t)
		}
	}
	if through <= s.noticed {
		return
	}
	n := s.notices(t)
	for _, id := range seen[known:] {
		n.see(source.Range{First: id, Last: id})
	}
	n.end(through)
}

// noticer makes ids above noticed missing, between those that are there.
type noticer struct {
	*state
	t, floor  int64
	ok, holes bool
	next      uint64
}

// notices returns a noticer at the time t.
func (s *state) notices(t int64) noticer {
	n := noticer{state: s, t: t, next: s.noticed + 1}
	// Asking for the newest once keeps the open leaf open.
	n.floor, n.ok = s.missing.newest(s.missing.top())
	return n
}

// see passes over the ids of r, which are there; those between are missing.
func (n *noticer) see(r source.Range) {
	if r.Last < n.next || n.next == 0 {
		return
	}
	if r.First > n.next {
		n.miss(source.Range{First: n.next, Last: r.First - 1})
	}
	n.next = r.Last + 1
}

func (n *noticer) miss(ids source.Range) {
	missed := n.highs.at(ids.Last, n.t)
	if n.ok {
		missed = max(n.floor, missed)
	}
	n.floor, n.ok, n.holes = missed, true, true
	n.missing.add(gap{ids, missed})
}

// end moves noticed to through.
func (n *noticer) end(through uint64) {
	if n.next != 0 && n.next <= through {
		n.miss(source.Range{First: n.next, Last: through})
	}
	if at := &n.missing.segments[n.missing.top()]; !n.holes && at.observed == n.noticed {
		at.observed = through
	}
	n.noticed = through
	n.highs = n.highs.above(through)
}

// reach returns how far GapHold may publish, at most through.
func (s *state) reach(through uint64, t int64) uint64 {
	if through <= s.position {
		return through
	}
	reach := through
	s.missing.ascend(s.position+1, func(g gap) bool {
		if g.First > through {
			return false
		}
		if t-g.missed < s.hotFor || g.Last > s.sure || s.pending.overlaps(g.Range) {
			reach = g.First - 1
			return false
		}
		return true
	})
	return reach
}

// fill removes id from the missing ones and reports whether it was one.
func (s *state) fill(id uint64, t int64) bool {
	if id > s.position {
		return false
	}
	rest, ok := s.missing.remove(id, t)
	if !ok {
		return false
	}
	s.pending.filled(id)
	if s.segmented {
		s.pending.follow(id, rest, t)
	}
	return true
}

// moveTo puts the position at id; see Ledger.MoveTo.
func (s *state) moveTo(id uint64) {
	last := min(id, s.position)
	kept := newGapSet()
	floor := int64(-1 << 63)
	s.missing.ascend(0, func(g gap) bool {
		if g.First > last {
			return false
		}
		// Times ascend within a segment, and the wide gaps between segments may be cut.
		floor = max(floor, g.missed)
		kept.add(gap{source.Range{First: g.First, Last: min(g.Last, last)}, floor})
		return true
	})
	kept.leaves.store.err = s.missing.leaves.store.err
	s.missing, s.highs = kept, nil
	s.pending.list, s.pending.young = nil, nil
	s.position, s.noticed, s.sure = id, id, id
}

// hot returns the ids of each segment from which on all missing ids are hot, ascending.
func (s *state) hot(t int64) []source.Range {
	m := s.missing
	spans := make([]source.Range, 0, len(m.segments))
	for k, at := range m.segments {
		ids := m.wide.segment(k)
		cold := max(min(m.missedBy(k, t-s.hotFor), at.observed), at.expired)
		if s.hold {
			// reach needs evidence of every id above the position, in whichever segment.
			cold = min(cold, s.position)
		}
		if ids.Last = min(ids.Last, s.noticed); cold < ids.Last {
			ids.First = max(ids.First, cold+1)
			spans = append(spans, ids)
		}
	}
	return spans
}

// cold returns the ids of each segment that are missing for longer than the hot time and still
// polled, ascending.
func (s *state) cold(t int64) []source.Range {
	m := s.missing
	list := make([]source.Range, 0, len(m.segments))
	for k, at := range m.segments {
		if last := min(m.missedBy(k, t-s.hotFor), s.position); at.expired < last {
			list = append(list, source.Range{First: at.expired + 1, Last: last})
		}
	}
	return list
}

// polled returns the ids of segment k that are polled for their age, empty where there are none.
func (s *state) polled(k int) source.Range {
	ids, expired := s.missing.wide.segment(k), s.missing.segments[k].expired
	if expired >= ids.Last {
		return source.Range{First: 1}
	}
	ids.First = max(ids.First, expired+1)
	return ids
}

// low returns the lowest missing id that is looked up, the one behind the position if none is.
func (s *state) low() uint64 {
	low := s.position
	if low < 1<<64-1 {
		low++
	}
	lower := func(r source.Range) {
		if r.First < low {
			s.missing.missingIn(r, func(ids source.Range) bool {
				low = min(low, ids.First)
				return false
			})
		}
	}
	for k := range s.missing.segments {
		lower(s.polled(k))
	}
	for k := range s.missing.wide {
		lower(s.missing.wide.front(k))
	}
	for i := range s.pending.list {
		lower(s.pending.list[i].Range)
	}
	return low
}
