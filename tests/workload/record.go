package workload

import (
	"sync"
	"time"
)

// Fate is what became of the transaction that inserted a row.
type Fate string

// The fates.
const (
	// Open is not finished yet.
	Open Fate = "open"
	// Committed is committed: the row was there afterwards.
	Committed Fate = "committed"
	// RolledBack was rolled back, by the writer or with its connection, before any COMMIT was sent.
	RolledBack Fate = "rolled back"
	// Unknown is a COMMIT without an answer whose rows were not there afterwards, or that could not
	// be looked for.
	Unknown Fate = "unknown"
)

// Row is one insertion. Times are the host's, with a monotonic reading.
type Row struct {
	// Table is where the row went, ID its id where the writer chose it, else 0.
	Table string
	ID    uint64
	// Entity is the row's unique key, Token what no other insertion has.
	Entity, Token string
	// Version counts the insertions of the entity, from 1, in the order of their transactions.
	Version int
	Fate    Fate
	// Begun is before the statement that inserted the row, CommitBegun before the COMMIT,
	// CommitEnded after it. The last two are zero for a row that was rolled back.
	Begun, CommitBegun, CommitEnded time.Time
	// Ambiguous says that the COMMIT was not answered: CommitEnded is then when the row was found,
	// or given up.
	Ambiguous bool
	// GoneFrom is before the COMMIT of the transaction that replaced or deleted the row: from then
	// on it may not be there. It is zero while the row is there.
	GoneFrom time.Time
}

// Record is what a workload did. It is safe for concurrent use.
type Record struct {
	mu   sync.Mutex
	rows []*Row
	sums Sums
}

// Sums count what a workload did.
type Sums struct {
	// Commits, Rollbacks and Unknown count transactions by their fate; Burned are those of
	// Rollbacks whose INSERT failed.
	Commits, Rollbacks, Unknown, Burned int
	// Rows counts the rows that were committed.
	Rows int
	// Reconnects counts how often a writer lost its connection, could not get one, or had a DELETE
	// that did nothing.
	Reconnects int
}

// Rows returns a copy of all entries, in the order in which their transactions were begun.
func (r *Record) Rows() []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]Row, len(r.rows))
	for i, row := range r.rows {
		rows[i] = *row
	}
	return rows
}

// Sums returns the counts so far.
func (r *Record) Sums() Sums {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums
}

// forget removes all entries and returns them. The counts stay.
func (r *Record) forget() []*Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.rows
	r.rows = nil
	return rows
}

func (r *Record) count(change func(*Sums)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.sums)
}

// begin enters the rows of a transaction.
func (r *Record) begin(t *transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, row := range t.rows {
		row.Fate, row.Begun = Open, now
	}
	r.rows = append(r.rows, t.rows...)
}

// rolledBack ends a transaction whose COMMIT was not sent.
func (r *Record) rolledBack(t *transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range t.rows {
		row.Fate = RolledBack
	}
	r.sums.Rollbacks++
}

// committing notes that the COMMIT is sent.
func (r *Record) committing(t *transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, row := range t.rows {
		row.CommitBegun = now
	}
	for _, row := range t.removes {
		row.GoneFrom = now
	}
}

// committed notes that the COMMIT was answered.
func (r *Record) committed(t *transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, row := range t.rows {
		row.Fate, row.CommitEnded = Committed, now
	}
	r.sums.Commits++
	r.sums.Rows += len(t.rows)
}

// ambiguous ends a transaction whose COMMIT was not answered. there holds the tokens that were
// found afterwards, nil when nobody could look.
func (r *Record) ambiguous(t *transaction, there map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, row := range t.rows {
		row.Fate, row.CommitEnded, row.Ambiguous = Unknown, now, true
		if there[row.Token] {
			row.Fate = Committed
			r.sums.Rows++
		}
	}
	for _, row := range t.removes {
		if there[row.Token] {
			row.GoneFrom = time.Time{}
		}
	}
	r.sums.Unknown++
}
