package source

import "time"

// Evidence is a read of ids that shows uncommitted rows too, where the database can show them.
type Evidence struct {
	// Ranges are what was read completely, ascending and disjoint; see Clip.
	Ranges []Range
	// IDs are the ids that exist in Ranges, ascending. Others do no harm.
	IDs []uint64
	// Now is the steady time of the read.
	Now time.Time
}

// Reason says why an id was given up.
type Reason string

// The reasons to give an id up.
const (
	// ReasonTTL: it was vacant until GapTTL.
	ReasonTTL Reason = "ttl"
	// ReasonOverflow: the ledger was full.
	ReasonOverflow Reason = "overflow"
)

// GivenUp is a range of ids that the ledger no longer looks for. A row that turns up there is found by reconcile.
type GivenUp struct {
	Range
	// Missed is when the ids were first missed.
	Missed time.Time
	Reason Reason
}

// Judge learns from the evidence for Hot: a missing id that it shows is in flight, or committed since the rows were read, and stays hot;
// one in its ranges that it does not show is vacant. It must have been read after the committed rows of the same poll.
// Vacant ids whose time is over are given up and returned.
func (l *Ledger) Judge(e Evidence) []GivenUp {
	l.probe.resume = 0
	if n := len(e.Ranges); n > 0 && e.Ranges[n-1].Last < l.probe.last {
		l.probe.resume = e.Ranges[n-1].Last
	}
	return l.judge(e)
}

func (l *Ledger) judge(e Evidence) []GivenUp {
	t := l.clock.tick(e.Now)
	l.observe(e, t)
	l.judged = l.covered(l.judged, e.Ranges)
	l.sure = max(l.sure, l.covered(l.position, e.Ranges))
	return l.expire(e.Ranges, t)
}

// covered returns the highest id up to which every missing id above from lies in ranges.
func (l *Ledger) covered(from uint64, ranges []Range) uint64 {
	through := l.noticed
	if from >= through {
		return from
	}
	i := 0
	l.missing.ascend(from+1, func(r run) bool {
		first := max(r.first, from+1)
		for i < len(ranges) && ranges[i].Last < first {
			i++
		}
		if i == len(ranges) || ranges[i].First > first {
			through = first - 1
			return false
		}
		if ranges[i].Last < r.last {
			through = ranges[i].Last
			return false
		}
		return true
	})
	return through
}

// expire gives up the ids in ranges that have been missing for the whole TTL and are not hot.
func (l *Ledger) expire(ranges []Range, t int64) []GivenUp {
	limit := min(l.missing.through(t-l.ttl), l.position)
	var gone []run
	flights := l.flightRanges()
	for _, r := range Clip(ranges, limit) {
		split(r, flights, func(part Range, hot bool) {
			if !hot {
				gone = l.missing.removeRange(gone, part)
			}
		})
	}
	return l.givenUp(gone, ReasonTTL)
}

func (l *Ledger) flightRanges() []Range {
	ranges := make([]Range, 0, len(l.flights))
	for _, f := range l.flights {
		ranges = append(ranges, f.ids())
	}
	return ranges
}

// shed gives up vacant ids, the oldest first, while the ledger is too large. Cold ids are older than hot ones.
func (l *Ledger) shed() []GivenUp {
	if l.size() <= l.opts.MaxBytes {
		return nil
	}
	l.missing.seal()
	var gone []run
	flights := l.flightRanges()
	for i := 0; i < len(l.missing.leaves) && l.size() > l.opts.MaxBytes*7/8; {
		leaf := &l.missing.leaves[i]
		if leaf.last > l.position {
			break
		}
		before := len(l.missing.leaves)
		split(Range{leaf.first, leaf.last}, flights, func(part Range, hot bool) {
			if !hot {
				gone = l.missing.removeRange(gone, part)
			}
		})
		// Where ids in flight remain of the leaf, the next one follows.
		i += 1 + len(l.missing.leaves) - before
	}
	return l.givenUp(gone, ReasonOverflow)
}

func (l *Ledger) givenUp(gone []run, reason Reason) []GivenUp {
	if len(gone) == 0 {
		return nil
	}
	list := make([]GivenUp, 0, len(gone))
	for _, r := range gone {
		list = append(list, GivenUp{Range: Range{r.first, r.last}, Missed: l.clock.time(r.missed), Reason: reason})
	}
	return list
}

// size is the memory that the ledger takes, in bytes.
func (l *Ledger) size() int {
	return l.missing.size() + cap(l.flights)*40 + cap(l.heads)*16
}

// sweepState is how far the sweep over the cold ids has come.
type sweepState struct {
	running bool
	// from is the first id that was not swept yet.
	from uint64
	// began is when the last sweep began.
	began int64
	ever  bool
}

// Sweep returns the next part of the cold ids to look for, nil when no sweep is due: one begins every minute, or when the last has
// ended, whichever is later. Read the ids in the ranges as for Judge and hand them to Swept; the same part comes again until then.
// As many parts may be read in one poll as there is time for.
func (l *Ledger) Sweep(now time.Time) []Range {
	t := l.clock.tick(now)
	s := &l.sweep
	if !s.running {
		if s.ever && t-s.began < sweepEvery.Microseconds() {
			return nil
		}
		*s = sweepState{running: true, from: 1, began: t, ever: true}
	}
	end := min(l.missing.through(t-l.hotFor), l.position)
	var ranges []Range
	spare := uint64(sweepIDs)
	l.missing.ascend(s.from, func(r run) bool {
		if r.first > end {
			return false
		}
		r.first = max(r.first, s.from)
		if n := len(ranges) - 1; n >= 0 {
			if between := r.first - ranges[n].Last - 1; between <= min(spare, sweepIDs/sweepRanges) {
				ranges[n].Last = r.last
				spare -= between
				return true
			}
		}
		if len(ranges) == sweepRanges {
			return false
		}
		ranges = append(ranges, Range{r.first, r.last})
		return true
	})
	s.running = len(ranges) > 0
	return ranges
}

// Swept learns from the evidence for a part of the sweep. An id that it shows is hot from now on, so that the next poll finds its
// record. Vacant ids whose time is over are given up and returned.
func (l *Ledger) Swept(e Evidence) []GivenUp {
	if n := len(e.Ranges); n > 0 && l.sweep.running {
		l.sweep.from = e.Ranges[n-1].Last + 1
		l.sweep.running = l.sweep.from != 0
	}
	return l.judge(e)
}
