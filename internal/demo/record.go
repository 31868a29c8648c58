package demo

import (
	"sync"
	"time"
)

// Row names one row.
type Row struct {
	Table string
	ID    int64
}

// fate is what became of a row.
type fate struct {
	// committed is right before its COMMIT, gone right before the COMMIT that replaced or purged it; zero while it is there.
	committed, gone time.Time
}

// Record is what the writers committed. It is safe for concurrent use; the zero value is ready.
type Record struct {
	mu         sync.Mutex
	rows       map[Row]fate
	heartbeats int
}

// change is what one transaction does.
type change struct {
	table string
	// added and removed are ids.
	added, removed []int64
	heartbeats     int
}

// commit enters a change before its COMMIT and takes it back when that fails.
func (r *Record) commit(c change, commit func() error) error {
	now := time.Now()
	r.mu.Lock()
	if r.rows == nil {
		r.rows = make(map[Row]fate)
	}
	for _, id := range c.added {
		r.rows[Row{c.table, id}] = fate{committed: now}
	}
	for _, id := range c.removed {
		r.rows[Row{c.table, id}] = fate{r.rows[Row{c.table, id}].committed, now}
	}
	r.heartbeats += c.heartbeats
	r.mu.Unlock()

	err := commit()
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range c.added {
		delete(r.rows, Row{c.table, id})
	}
	for _, id := range c.removed {
		r.rows[Row{c.table, id}] = fate{committed: r.rows[Row{c.table, id}].committed}
	}
	r.heartbeats -= c.heartbeats
	return err
}

// Committed returns when a row was committed.
func (r *Record) Committed(row Row) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.rows[row]
	return f.committed, ok
}

// Counts returns how many rows and heartbeats were written.
func (r *Record) Counts() (rows, heartbeats int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows), r.heartbeats
}

// without returns the rows that are not in seen: those that must be there, and those that were gone soon.
func (r *Record) without(seen map[Row]bool) (lost []Row, gone int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for row, f := range r.rows {
		switch {
		case seen[row]:
		case f.gone.IsZero() || f.gone.Sub(f.committed) > SeenWithin:
			lost = append(lost, row)
		default:
			gone++
		}
	}
	return lost, gone
}
