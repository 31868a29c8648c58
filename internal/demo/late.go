package demo

import (
	"fmt"
	"time"
)

// lateRows explains the first late row: which higher id was published before it was committed.
type lateRows struct {
	// stored is when the stream got the event of an order, by its id.
	stored    map[int64]time.Time
	explained bool
}

// add notes that the event of an order was received.
func (l *lateRows) add(e Event) {
	if e.Table != Orders || l.explained {
		return
	}
	if l.stored == nil {
		l.stored = make(map[int64]time.Time)
	}
	l.stored[e.Row] = e.Stored
}

// explain returns a line about the first late order, empty for any other event: the lowest id above
// it was published so long before the commit that the wait shows in seconds.
func (l *lateRows) explain(e Event, committed time.Time) string {
	if e.Origin != "late" || e.Table != Orders || l.explained {
		return ""
	}
	next := int64(0)
	for id := range l.stored {
		if id > e.Row && (next == 0 || id < next) {
			next = id
		}
	}
	waited := committed.Sub(l.stored[next])
	if next == 0 || waited < 100*time.Millisecond {
		return ""
	}
	l.explained, l.stored = true, nil
	return fmt.Sprintf("         └ id %d was committed %.1f s after id %d was published:\n"+
		"           a reader of `id > %d` never sees it", e.Row, waited.Seconds(), next, next)
}
