package shard

import (
	"time"

	"bridge/source"
)

// landing is the state of late rows that are more than one read brings, as when a large transaction
// commits: they are read one page after the other, without a pause, and each poll reads a page of
// the tail, too.
type landing struct {
	// cut says that a limit ended the last read of late rows, rest what it did not come to.
	cut  bool
	rest []source.Range
	// first is when the first of them was read, zero while none are left for the next poll.
	first time.Time
	// judged is when the last evidence was read, cost how long that took.
	judged time.Time
	cost   time.Duration
}

// evidenceShare and evidenceWait bound how much of the time evidence takes while rows land, and how
// long it waits.
const (
	evidenceShare = 20
	evidenceWait  = 5 * time.Second
)

// skipsEvidence reports whether a poll may do without evidence: it would show up to evidenceIDs ids
// that the next reads bring anyway. Ids that are not judged stay as they are, so that it is safe to
// wait.
func (l *landing) skipsEvidence(now time.Time, interval time.Duration) bool {
	return !l.first.IsZero() && now.Sub(l.judged) < min(max(interval, evidenceShare*l.cost), evidenceWait)
}

// measure notes when evidence was read.
func (l *landing) measure(at span) { l.judged, l.cost = at.got, at.got.Sub(at.asked) }

// since implements seen: late rows have been there since the first of them was read.
func (l *landing) since(uint64) time.Time { return l.first }

// goOn notes at the end of a poll whether there are more to read at once; at is when the present
// ones were read.
func (l *landing) goOn(more bool, at time.Time) {
	switch {
	case !more:
		l.first = time.Time{}
	case l.first.IsZero():
		l.first = at
	}
}
