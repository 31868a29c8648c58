package ledger

import "time"

// Position says how far a shard has been published: everything up to ID that could be seen, except
// what is in the gaps.
type Position struct {
	// ID is the highest id that has been published or passed over.
	ID uint64
	// Gaps are the lowest ranges at or below ID that have not been seen, ascending and disjoint: a
	// few, for people. All of them are in the ledger.
	Gaps []Gap
	// Reading is the clock under which rows after ID may have been published before a crash.
	Reading Reading
}

// Bounded reports whether the next page has to end at Reading.Through.
func (p *Position) Bounded() bool { return p.Reading.Through > p.ID }

// Gap is a closed range of ids that have not been seen.
type Gap struct {
	First, Last uint64
	// Missed is when the gap was first noticed, by the database's clock.
	Missed time.Time
}

// Reading fixes the time that rows without a time of their own get in their events. It is saved
// before such rows are published, so that a second publish after a crash has the same bytes.
type Reading struct {
	// Through is the last id that At holds for; 0 means that there is no reading.
	Through uint64
	// At is the database's clock at the read, in UTC.
	At time.Time
}

// Covers reports whether the row with this id was read under r.
func (r Reading) Covers(id uint64) bool { return id <= r.Through }
