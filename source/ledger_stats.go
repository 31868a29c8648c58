package source

import "time"

// LedgerStats describes a ledger at one moment.
type LedgerStats struct {
	// Hot and Cold are the numbers of missing ids, InFlight how many of the hot ones the last evidence showed.
	Hot, Cold, InFlight uint64
	// Ranges is how many gaps they form.
	Ranges int
	// Oldest is when the first of them was missed, zero when there is none.
	Oldest time.Time
	// Bytes is the memory that they take, Saved what they take in a checkpoint, in Chunks parts.
	Bytes, Saved, Chunks int
}

// Stats describes the ledger at now. It costs some microseconds for each thousand gaps.
func (l *Ledger) Stats(now time.Time) LedgerStats {
	t := l.clock.tick(now)
	m := l.missing
	m.seal()
	s := LedgerStats{Bytes: l.size(), Saved: m.forms, Chunks: len(m.leaves)}
	for i := range m.leaves {
		s.Cold += m.leaves[i].ids
		s.Ranges += m.leaves[i].runs
	}
	if len(m.leaves) > 0 {
		s.Oldest = l.clock.time(m.leaves[0].oldest)
	}
	from := l.hotFrom(t)
	s.Hot = m.count(Range{from, l.noticed})
	for _, f := range l.flights {
		if f.flying {
			s.InFlight += m.count(f.ids())
		}
		if f.first < from {
			s.Hot += m.count(Range{f.first, min(f.last, from-1)})
		}
	}
	s.Cold -= s.Hot
	return s
}

// Gaps returns the lowest, and so the oldest, gaps in ascending order, at most limit of them; a limit of 0 returns all.
func (l *Ledger) Gaps(limit int) []Gap {
	var gaps []Gap
	l.missing.ascend(0, func(r run) bool {
		gaps = append(gaps, Gap{First: r.first, Last: r.last, Missed: l.clock.time(r.missed)})
		return len(gaps) != limit
	})
	return gaps
}

// Flight is a range of ids that the last evidence showed uncommitted: someone holds a transaction open.
type Flight struct {
	Range
	// Since is when they were first seen in flight.
	Since time.Time
}

// InFlight returns what has been in flight for at least this long at now, ascending, at most limit ranges; a limit of 0 returns all.
func (l *Ledger) InFlight(atLeast time.Duration, limit int, now time.Time) []Flight {
	t := l.clock.tick(now)
	var list []Flight
	for _, f := range l.flights {
		if f.flying && t-f.since >= atLeast.Microseconds() && l.missing.any(f.ids()) {
			list = append(list, Flight{Range: f.ids(), Since: l.clock.time(f.since)})
			if len(list) == limit {
				break
			}
		}
	}
	return list
}
