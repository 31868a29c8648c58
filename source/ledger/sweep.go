package ledger

import "bridge/source"

const (
	// sweepIDs and sweepRanges bound one part of a sweep, as MaxIDs and MaxRanges bound a probe.
	sweepIDs    = 100_000
	sweepRanges = 512
)

// sweeper says which cold ids to read, and when.
type sweeper struct {
	// every is the time between the beginnings of two sweeps, in microseconds.
	every   int64
	running bool
	// from is the first id that was not swept yet.
	from uint64
	// began is when the last sweep began.
	began int64
	ever  bool
}

// next returns the next part of a sweep, nil when no sweep is due.
func (w *sweeper) next(s *state, t int64) []source.Range {
	if !w.running {
		if w.ever && t-w.began < w.every {
			return nil
		}
		w.running, w.from, w.began, w.ever = true, 1, t, true
	}
	var ranges []source.Range
	spare := uint64(sweepIDs)
	add := func(r source.Range) bool {
		if n := len(ranges) - 1; n >= 0 {
			if between := r.First - ranges[n].Last - 1; between <= min(spare, sweepIDs/sweepRanges) {
				ranges[n].Last = r.Last
				spare -= between
				return true
			}
		}
		if len(ranges) == sweepRanges {
			return false
		}
		ranges = append(ranges, r)
		return true
	}
	for _, cold := range s.cold(t) {
		if cold.First = max(cold.First, w.from); !cold.Empty() && !s.missing.missingIn(cold, add) {
			break
		}
	}
	w.running = len(ranges) > 0
	return ranges
}

// read notes that ranges, a part of the sweep, were read.
func (w *sweeper) read(ranges []source.Range) {
	if n := len(ranges); n > 0 && w.running {
		w.from = ranges[n-1].Last + 1
		w.running = w.from != 0
	}
}
