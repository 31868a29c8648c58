package demo

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fact is the content of an event: a row has a state. It tells events about one row apart.
type Fact struct {
	Table string
	ID    int64
	// State is the text that an event shows beside the key, or one of the states below.
	State string
}

// States of an entity that is deleted.
const (
	// deletedState: a column of its row says so.
	deletedState = "deleted"
	// goneState: it has no row.
	goneState = "gone"
)

// version is one state of an entity, from one change to the next.
type version struct {
	entity string
	state  string
	// rows are the ids of the rows that had it: a REPLACE with the values that are there makes a
	// new row of it.
	rows []int64
	// committed is right before its COMMIT, ended right before that of the next one; zero while it
	// lasts.
	committed, ended time.Time
	// together is how many states its transaction committed.
	together int
	before   *version
}

// name names an entity of a table.
type name struct{ table, entity string }

// Record is what the writers committed. It is safe for concurrent use; the zero value is ready.
type Record struct {
	mu    sync.Mutex
	facts map[Fact]*version
	// last are the versions that the tables hold.
	last map[name]*version
	// states counts the versions, silent the writes that made none.
	states, silent int
}

// change is what one transaction does.
type change struct {
	table  string
	states []state
	// purged are ids of rows of a log.
	purged []int64
	// touched counts writes that change nothing that an event would show.
	touched int
}

// state is what a transaction makes of an entity: a row with this id and state, or that the one
// with this id is gone.
type state struct {
	entity string
	id     int64
	text   string
}

// commit commits a change and enters it: a consumer that sees the change finds it entered.
func (r *Record) commit(c change, commit func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if err := commit(); err != nil {
		return err
	}
	if r.facts == nil {
		r.facts, r.last = make(map[Fact]*version), make(map[name]*version)
	}
	for _, s := range c.states {
		r.enter(c.table, s, now, len(c.states))
	}
	for _, id := range c.purged {
		if v := r.last[name{c.table, strconv.FormatInt(id, 10)}]; v != nil {
			v.ended = now
		}
	}
	r.silent += c.touched
	return nil
}

// enter enters a state that was committed at a time, in a transaction of together states.
func (r *Record) enter(table string, s state, at time.Time, together int) {
	entity := name{table, s.entity}
	before := r.last[entity]
	if before != nil && before.state == s.text {
		// The same state in another row is no news, whichever of the rows was read.
		before.rows = append(before.rows, s.id)
		r.facts[Fact{table, s.id, s.text}] = before
		r.silent++
		return
	}
	v := &version{entity: s.entity, state: s.text, rows: []int64{s.id}, committed: at, together: together, before: before}
	if before != nil {
		before.ended = at
	}
	if s.text == goneState {
		v.rows = rowsOf(before)
	}
	for _, id := range v.rows {
		r.facts[Fact{table, id, s.text}] = v
	}
	r.last[entity] = v
	r.states++
}

// rowsOf returns the ids of all rows that an entity had since it was gone last: the event that it
// is gone names the row that was read last.
func rowsOf(v *version) []int64 {
	var rows []int64
	for ; v != nil && v.state != goneState; v = v.before {
		rows = append(rows, v.rows...)
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// Committed returns when a fact was committed, and with how many others in one transaction. The
// time is zero where nobody wrote it.
func (r *Record) Committed(f Fact) (at time.Time, together int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.facts[f]; ok {
		return v.committed, v.together
	}
	return time.Time{}, 0
}

// Counts returns how many states were written, and how many writes made no new one.
func (r *Record) Counts() (states, silent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states, r.silent
}
