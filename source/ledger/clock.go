package ledger

import (
	"sort"
	"time"
)

// clock turns the owner's steady time into the ledger's, in microseconds, which goes on across
// restarts and never runs back.
type clock struct {
	// now is the ledger's time, given the owner's at the same moment, offset their difference.
	now, given, offset int64
	// away is how far the clock may move at the first tick after a restart.
	away     int64
	restored bool
	started  bool
}

func (c *clock) tick(at time.Time) int64 {
	if at.IsZero() {
		return c.now
	}
	given := at.UnixMicro()
	if c.restored {
		// A clock that was set, or another server's, ages gaps by no more than the time that
		// passed.
		elapsed := min(max(given-c.given, 0), c.away)
		c.offset, c.restored = given-(c.now+elapsed), false
	}
	if t := given - c.offset; !c.started || t > c.now {
		c.now, c.given, c.started = t, given, true
	}
	return c.now
}

// time is the moment t by the owner's clock.
func (c *clock) time(t int64) time.Time { return time.UnixMicro(t + c.offset).UTC() }

// gap is g with a time by the owner's clock.
func (c *clock) gap(g gap) Gap {
	return Gap{First: g.First, Last: g.Last, Missed: c.time(g.missed)}
}

// high says that the table had ids up to id at a time.
type high struct {
	id uint64
	at int64
}

// maxHighs bounds how finely the times of a backlog are told apart.
const maxHighs = 256

// highs tells when an id was first known to be allocated: when an id at least as high was first
// seen. Both ids and times ascend.
type highs []high

// add notes that the table has ids up to id at t.
func (h highs) add(id uint64, t int64) highs {
	if n := len(h); n > 0 && id <= h[n-1].id {
		return h
	}
	if len(h) >= maxHighs {
		// Without every second entry ids become younger, never older.
		for i := range maxHighs / 2 {
			h[i] = h[2*i+1]
		}
		h = h[:maxHighs/2]
	}
	return append(h, high{id: id, at: t})
}

// at returns when an id at least as high as id was first seen, at the latest t.
func (h highs) at(id uint64, t int64) int64 {
	if h = h.above(id - 1); len(h) > 0 {
		return min(t, h[0].at)
	}
	return t
}

func (h highs) above(id uint64) highs {
	return h[sort.Search(len(h), func(i int) bool { return h[i].id > id }):]
}
