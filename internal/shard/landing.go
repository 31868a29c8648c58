package shard

import (
	"context"
	"slices"
	"time"

	"bridge/source"
	"bridge/source/ledger"
)

// landing is the state of late records that are more than one read brings, as when a large transaction commits: they
// are read one page after the other, without a pause, and each turn reads a page of the tail, too.
type landing struct {
	// cut says that a limit ended the last read of late records, rest what it did not come to.
	cut  bool
	rest []source.Range
	// ahead is a page of late records that was read beside the page of the tail, nil where there is none.
	ahead *latePage
	// since is when the first of them was read, zero while none are left for the next turn.
	since time.Time
	// judged is when the last evidence was read, cost how long that took.
	judged time.Time
	cost   time.Duration
}

// evidenceShare and evidenceWait bound how much of the time evidence takes while records land, and how long it waits.
const (
	evidenceShare = 20
	evidenceWait  = 5 * time.Second
)

// skipsEvidence reports whether a poll may do without evidence: it would show up to evidenceIDs ids that the next
// reads bring anyway. Ids that are not judged stay as they are, so that it is safe to wait.
func (l *landing) skipsEvidence(now time.Time, interval time.Duration) bool {
	return !l.since.IsZero() && now.Sub(l.judged) < min(max(interval, evidenceShare*l.cost), evidenceWait)
}

// judge notes that evidence was read between two moments.
func (l *landing) judge(began, ended time.Time) { l.judged, l.cost = ended, ended.Sub(began) }

// goOn notes at the end of a turn whether there are more to read at once; at is when the present ones were read.
func (l *landing) goOn(more bool, at time.Time) {
	switch {
	case !more:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = at
	}
}

// moreLate reports, at the end of a turn that published late records, whether more of them are there to be read at once.
func (s *Shard) moreLate() bool {
	more := len(s.filled) > 0 && (s.gaps.landing.cut || s.gaps.ledger.Arriving())
	s.gaps.landing.goOn(more, s.got)
	return more
}

// latePage is a page of late records.
type latePage struct {
	query source.Query
	page  *source.Page
}

// free gives the page back; there may be none.
func (p *latePage) free() {
	if p != nil {
		p.page.Reset()
		pages.Put(p.page)
	}
}

func (l *landing) dropAhead() {
	l.ahead.free()
	l.ahead = nil
}

// lateQuery asks for late records in ranges.
func (s *Shard) lateQuery(ranges []source.Range) source.Query {
	return source.Query{Ranges: ranges, Limit: lateRows, MaxBytes: s.opts.Limits.pageBytes()}
}

// takeAhead makes s.gaps.late the page that was read ahead, if that is what a read of ranges would bring.
// Invariant 3: it was read behind the page of this turn, and nothing else was read since.
func (s *Shard) takeAhead(ranges []source.Range) bool {
	a := s.gaps.landing.ahead
	if a == nil || !slices.Equal(a.query.Ranges, ranges) {
		s.gaps.landing.dropAhead()
		return false
	}
	former := latePage{page: s.gaps.late}
	former.free()
	s.gaps.late, s.gaps.landing.ahead = a.page, nil
	return true
}

// prefetchNext has read, while this turn makes a batch of records, what the next one will most likely read: the page behind them, where this
// one was full, and the late records that the last read was cut off from.
func (s *Shard) prefetchNext(ctx context.Context, position ledger.Position, records []source.Row) {
	if position.Bounded() {
		return
	}
	next := ledger.Position{ID: position.ID}
	if n := len(records); n > 0 {
		next.ID = records[n-1].ID
	}
	full := len(records) > 0 && len(records) == len(s.page.Rows) && s.page.More
	if full || s.gaps.landing.cut {
		s.prefetch(ctx, next, s.gaps.landing.rest)
	}
}
