package ledger

import (
	"time"

	"bridge/source"
)

// Evidence is a read of ids that shows uncommitted rows too, where the database can show them.
type Evidence struct {
	// Ranges are the ids that were read completely, ascending and disjoint; see Clip.
	Ranges []source.Range
	// IDs are the ids that exist in Ranges, ascending. Others do no harm.
	IDs []uint64
	// Now is the steady time of the read.
	Now time.Time
}

// Unpolled are vacant ids that were first missed so long ago that they are no longer polled. They
// stay missing.
type Unpolled struct {
	// Range contains all of them, IDs is how many they are.
	source.Range
	IDs uint64
	// Missed is when the first of them was first missed.
	Missed time.Time
}

// observe learns from an evidence. It returns the vacant ids whose time is over.
func (s *state) observe(e Evidence, c *clock) (ended []Unpolled) {
	t := c.tick(e.Now)
	s.pending.observe(s.missing, e, t)
	for k := range s.missing.segments {
		at := &s.missing.segments[k]
		at.observed = s.covered(k, at.observed, e.Ranges)
		if ids := s.expire(k, e.Ranges, t); !ids.Empty() {
			if u := s.unpolled(ids, c); u.IDs > 0 {
				ended = append(ended, u)
			}
			s.missing.compact(k, ids, s.pending.overlaps)
		}
	}
	s.sure = max(s.sure, s.covered(s.missing.top(), s.position, e.Ranges))
	return ended
}

// covered returns the highest id of segment k up to which every missing id above from lies in
// ranges.
func (s *state) covered(k int, from uint64, ranges []source.Range) uint64 {
	through := min(s.noticed, s.missing.wide.segment(k).Last)
	if from >= through {
		return from
	}
	i := 0
	s.missing.ascend(from+1, func(g gap) bool {
		first := max(g.First, from+1)
		if first > through {
			return false
		}
		for i < len(ranges) && ranges[i].Last < first {
			i++
		}
		if i == len(ranges) || ranges[i].First > first {
			through = first - 1
			return false
		}
		if ranges[i].Last < g.Last {
			through = ranges[i].Last
			return false
		}
		return true
	})
	return through
}

// expire ends the polling of the ids of segment k in ranges that have been missing for the whole
// TTL, and returns them. Those among them that are pending stay hot.
func (s *state) expire(k int, ranges []source.Range, t int64) (ids source.Range) {
	at := &s.missing.segments[k]
	limit := min(s.missing.missedBy(k, t-s.ttl), s.position)
	if limit <= at.expired {
		return source.Range{First: 1}
	}
	through := min(s.covered(k, at.expired, ranges), limit)
	if through <= at.expired {
		return source.Range{First: 1}
	}
	ids = source.Range{First: at.expired + 1, Last: through}
	at.expired, at.observed = through, max(at.observed, through)
	s.unsaved = true
	return ids
}

// unpolled describes the ids whose polling has ended.
func (s *state) unpolled(ids source.Range, c *clock) Unpolled {
	u := Unpolled{Range: ids, IDs: s.missing.count(ids) - s.pending.count(s.missing, ids)}
	s.missing.ascend(ids.First, func(g gap) bool {
		u.Missed = c.time(g.missed)
		return false
	})
	return u
}
