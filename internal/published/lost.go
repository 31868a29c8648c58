package published

import (
	"cmp"
	"slices"
	"time"
)

// Lost holds published rows that are gone from a server that took over. A transaction that is open
// there may hold their ids.
type Lost struct {
	// Survivor is the highest row below them that is still as it was published, 0 where none is
	// known.
	Survivor uint64
	// Until is when they need no longer be compared.
	Until time.Time

	rows []Row
}

// Highest is the highest id of them.
func (l *Lost) Highest() uint64 { return l.rows[len(l.rows)-1].ID }

// Below appends to dst up to n rows with the highest ids up to through, in ascending order.
func (l *Lost) Below(through uint64, n int, dst []Row) []Row {
	end, found := l.find(through)
	if found {
		end++
	}
	return append(dst, l.rows[max(0, end-n):end]...)
}

func (l *Lost) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(l.rows, id, func(r Row, id uint64) int { return cmp.Compare(r.ID, id) })
}

// Lost returns the rows that servers have lost and that are still to be compared, nil where there
// are none.
func (l *Log) Lost() *Lost { return l.lost }

// Lose adds the rows that c found gone to the lost ones, the newest of which are kept up to the
// limit of the log. It returns how many were not among them. They stay when the log drops them.
func (l *Log) Lose(c *Check, until time.Time) (added int) {
	lost := Lost{Survivor: c.Survivor(), Until: until.Truncate(time.Millisecond)}
	if l.lost != nil {
		// An earlier loss had its own survivor. What is published again from the lower one on has
		// its former event ids.
		lost.rows, lost.Survivor = l.lost.rows, min(lost.Survivor, l.lost.Survivor)
	}
	before := len(lost.rows)
	for _, row := range c.Gone {
		if at, found := lost.find(row.ID); found {
			lost.rows[at] = row
		} else {
			lost.rows = slices.Insert(lost.rows, at, row)
		}
	}
	added = len(lost.rows) - before
	lost.rows = slices.Clone(lost.rows[max(0, len(lost.rows)-l.Limit()):])
	l.lost, l.headSaved = &lost, false
	return added
}

// Found takes rows out of the lost ones, whose ids are in use again.
func (l *Log) Found(ids ...[]uint64) {
	found := slices.Concat(ids...)
	if len(found) == 0 {
		return
	}
	l.lost.rows = slices.DeleteFunc(l.lost.rows, func(r Row) bool { return slices.Contains(found, r.ID) })
	l.headSaved = false
	if len(l.lost.rows) == 0 {
		l.lost = nil
	}
}

// Forget drops the lost rows.
func (l *Log) Forget() { l.lost, l.headSaved = nil, false }
