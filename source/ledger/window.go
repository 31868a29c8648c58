package ledger

import (
	"slices"
	"sort"
	"time"
)

// Steady makes a steady clock from the database's. It follows the database, but never runs back and
// never gains more than the time that has passed on this host. So no time passes when the
// database's clock is set, or when another server with another clock answers. Slow reads do not
// make it lag. The zero value is ready; it serves one goroutine.
type Steady struct {
	database, asked, steady time.Time
}

// Tick returns the steady time of a read at which the database's clock said database, and which the
// host began at asked and had at answered; these must carry a monotonic reading.
func (c *Steady) Tick(database, asked, answered time.Time) time.Time {
	if c.steady.IsZero() {
		c.steady = database
	} else {
		// Between the two moments at which the database read its clock, the host saw this much pass
		// at most. With less, a slow read would take away time that the next one cannot give back.
		most := max(answered.Sub(c.asked), 0)
		c.steady = c.steady.Add(min(max(database.Sub(c.database), 0), most))
	}
	c.database, c.asked = database, asked
	return c.steady
}

// Window decides which rows are old enough to be published. The age of a row is that of its CREATED
// column, or the time since an id at least as high was first seen, whichever is greater. A CREATED
// written by another clock or in another zone can therefore delay a row by at most the window, and
// hurry it by no more. A Window serves one goroutine.
type Window struct {
	size  time.Duration
	highs highs
}

// An age is too low by at most size/highsPerWindow, never too high.
const highsPerWindow = 16

// NewWindow returns a window of the given size; 0 lets everything pass.
func NewWindow(size time.Duration) *Window { return &Window{size: size} }

// See notes that the table has ids up to maxID at the steady time now. Call it with every page,
// before Stable.
func (w *Window) See(maxID uint64, now time.Time) {
	if w.size == 0 {
		return
	}
	t := now.UnixMicro()
	// Of the entries older than the window all but the newest are needless.
	for len(w.highs) > 1 && t-w.highs[1].at >= w.size.Microseconds() {
		w.highs = slices.Delete(w.highs, 0, 1)
	}
	n := len(w.highs)
	if n > 1 && maxID > w.highs[n-1].id && t-w.highs[n-2].at < w.size.Microseconds()/highsPerWindow {
		w.highs = w.highs[:n-1]
	}
	w.highs = w.highs.add(maxID, t)
}

// Age is the moment at which a row is observed.
type Age struct {
	// Now is the database's clock, by which CREATED counts.
	Now time.Time
	// Steady is the steady time, by which the time since an id was first seen counts.
	Steady time.Time
}

// Stable reports whether the row with this id may be published. created is the value of its CREATED
// column, zero when it has none; resolution is the smallest step of that column and is taken off
// the age, since a time of day written to the second may be a second older than the row.
func (w *Window) Stable(id uint64, created time.Time, resolution time.Duration, at Age) bool {
	// A difference from a time centuries ahead does not fit a duration.
	if w.size == 0 || !created.IsZero() && created.Before(at.Now) && at.Now.Sub(created)-resolution >= w.size {
		return true
	}
	steady := at.Steady.UnixMicro()
	return steady-w.highs.at(id, steady) >= w.size.Microseconds()
}

// FirstSeen tells since when a table has been known to hold ids, for the lag: where it forgets,
// they count as younger. The zero value is ready; it serves one goroutine.
type FirstSeen struct {
	// begun is the first time; others count from it, so that they are as steady as what See gets.
	begun time.Time
	highs highs
}

// See notes that the table has ids up to maxID at a time.
func (f *FirstSeen) See(maxID uint64, at time.Time) {
	if f.begun.IsZero() {
		f.begun = at
	}
	f.highs = f.highs.add(maxID, at.Sub(f.begun).Microseconds())
}

// Pass forgets the ids up to a position.
func (f *FirstSeen) Pass(position uint64) { f.highs = append(f.highs[:0], f.highs.above(position)...) }

// Since returns when an id at least as high as id was first seen, zero where none was.
func (f *FirstSeen) Since(id uint64) time.Time {
	if above := f.highs.above(id - 1); len(above) > 0 {
		return f.begun.Add(time.Duration(above[0].at) * time.Microsecond)
	}
	return time.Time{}
}

// clock makes the ledger's time, in microseconds, which goes on across restarts and never back.
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
		// A clock that was set, or another server's, ages gaps by no more than the time away.
		elapsed := min(max(given-c.given, 0), c.away)
		c.offset, c.restored = given-(c.now+elapsed), false
	}
	if t := given - c.offset; !c.started || t > c.now {
		c.now, c.given, c.started = t, given, true
	}
	return c.now
}

func (c *clock) time(t int64) time.Time { return time.UnixMicro(t + c.offset).UTC() }

func (c *clock) gap(g gap) Gap {
	return Gap{First: g.First, Last: g.Last, Missed: c.time(g.missed)}
}

type high struct {
	id uint64
	at int64
}

// maxHighs bounds how finely the times of a backlog are told apart.
const maxHighs = 256

// highs tells when an id at least as high as one was first seen. Both ids and times ascend.
type highs []high

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
