package source

import "time"

// Steady makes a steady clock from the database's: it follows the database but never runs back, and never further ahead than
// the time that has passed on this host. So a database whose clock is set, or that is replaced by one whose clock differs,
// can make neither a moment nor an hour pass that did not. How long reads take does not make it lag. The zero value is ready;
// it serves one goroutine.
type Steady struct {
	database, asked, steady time.Time
}

// Tick returns the steady time of a read at which the database's clock said database, and which the host began at asked and
// had at answered; these must carry a monotonic reading.
func (c *Steady) Tick(database, asked, answered time.Time) time.Time {
	if c.steady.IsZero() {
		c.steady = database
	} else {
		// Between the two moments at which the database read its clock, the host saw this much pass at most. With less, a slow
		// read would take away time that the next one cannot give back.
		most := max(answered.Sub(c.asked), 0)
		c.steady = c.steady.Add(min(max(database.Sub(c.database), 0), most))
	}
	c.database, c.asked = database, asked
	return c.steady
}

// Window decides which records are old enough to be published: those that have been stable for its size, by the age that their
// CREATED column gives or by the time since an id at least as high was first seen, whichever says so first. A CREATED written
// by another clock or in another zone can therefore delay a record by at most the window, and hurry it by no more.
// It is pure and serves one goroutine.
type Window struct {
	size  time.Duration
	marks []mark
}

// mark says that the table held ids up to id between first and last.
type mark struct {
	id          uint64
	first, last time.Time
}

// marksPerWindow is how finely first sights are told apart: an age is too low by at most size/marksPerWindow, never too high.
const marksPerWindow = 16

// NewWindow returns a window of the given size; 0 lets everything pass.
func NewWindow(size time.Duration) *Window { return &Window{size: size} }

// See notes that the table held ids up to maxID at the steady time now. Call it with every page, before Stable.
func (w *Window) See(maxID uint64, now time.Time) {
	if w.size == 0 {
		return
	}
	w.forget(now)
	if n := len(w.marks); n > 0 {
		newest := &w.marks[n-1]
		if maxID <= newest.id {
			return
		}
		if now.Sub(newest.first) < w.size/marksPerWindow {
			newest.id, newest.last = maxID, now
			return
		}
	}
	w.marks = append(w.marks, mark{id: maxID, first: now, last: now})
}

// forget drops the marks that a later one makes needless: of those older than the window the newest says it all.
func (w *Window) forget(now time.Time) {
	old := 0
	for old < len(w.marks) && now.Sub(w.marks[old].last) >= w.size {
		old++
	}
	if old > 1 {
		w.marks = append(w.marks[:0], w.marks[old-1:]...)
	}
}

// Age is the moment at which a record is judged.
type Age struct {
	// Now is the database's clock, by which CREATED counts.
	Now time.Time
	// Steady is the steady time, by which first sights count.
	Steady time.Time
}

// Stable reports whether the record with this id may be published. created is the value of its CREATED column, zero when it has
// none; resolution is the smallest step of that column and is taken off the age, since a time of day written to the second may
// be a second older than the row.
func (w *Window) Stable(id uint64, created time.Time, resolution time.Duration, at Age) bool {
	if w.size == 0 {
		return true
	}
	if !created.IsZero() && at.Now.Sub(created)-resolution >= w.size {
		return true
	}
	seen, ok := w.FirstSeen(id)
	return ok && at.Steady.Sub(seen) >= w.size
}

// FirstSeen returns the steady time at which an id at least this high was first seen, false when none was.
func (w *Window) FirstSeen(id uint64) (time.Time, bool) {
	for i := range w.marks {
		if w.marks[i].id >= id {
			return w.marks[i].last, true
		}
	}
	return time.Time{}, false
}
