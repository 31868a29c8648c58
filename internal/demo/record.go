package demo

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// Fact is what an event says: this row has this state. It tells the events apart that are about one row.
type Fact struct {
	Table string
	ID    int64
	// State is what an event shows of the row beside its key, or one of the states below.
	State string
}

// States of an entity that is deleted.
const (
	// marked: its row says so.
	marked = "marked"
	// gone: it has no row.
	gone = "gone"
)

// version is one state of an entity, from one change to the next.
type version struct {
	entity string
	state  string
	// rows are the ids of the rows that had it: a REPLACE with the values that are there makes a new row of it.
	rows []int64
	// committed is right before its COMMIT, ended right before that of the next one; zero while it lasts.
	committed, ended time.Time
	before           *version
}

// name names an entity of a table.
type name struct{ table, entity string }

// Record is what the writers committed. It is safe for concurrent use; the zero value is ready.
type Record struct {
	mu    sync.Mutex
	facts map[Fact]*version
	// last are the versions that the tables hold.
	last  map[name]*version
	all   int
	quiet int
}

// change is what one transaction does.
type change struct {
	table  string
	states []state
	// purged are ids of rows of a log.
	purged []int64
	// heartbeats change nothing that an event would show.
	heartbeats int
}

// state is what a transaction makes of an entity: a row with this id and state, or that the one with this id is gone.
type state struct {
	entity string
	id     int64
	text   string
}

// release is the state of a row of a log, which is an entity of its own.
func release(id int64, text string) state { return state{strconv.FormatInt(id, 10), id, text} }

// commit commits a change and enters it. Whoever has heard of the change finds it entered.
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
		r.enter(c.table, s, now)
	}
	for _, id := range c.purged {
		if v := r.last[name{c.table, strconv.FormatInt(id, 10)}]; v != nil {
			v.ended = now
		}
	}
	r.quiet += c.heartbeats
	return nil
}

// enter enters a state that was committed at a time.
func (r *Record) enter(table string, s state, at time.Time) {
	entity := name{table, s.entity}
	before := r.last[entity]
	if before != nil && before.state == s.text {
		// No event would say what is known, whichever of the rows was read.
		before.rows = append(before.rows, s.id)
		r.facts[Fact{table, s.id, s.text}] = before
		r.quiet++
		return
	}
	v := &version{entity: s.entity, state: s.text, rows: []int64{s.id}, committed: at, before: before}
	if before != nil {
		before.ended = at
	}
	if s.text == gone {
		v.rows = rowsOf(before)
	}
	for _, id := range v.rows {
		r.facts[Fact{table, id, s.text}] = v
	}
	r.last[entity] = v
	r.all++
}

// rowsOf returns the ids of all rows that an entity had since it was gone last: the event that it is gone names the one
// that was read last.
func rowsOf(v *version) []int64 {
	var rows []int64
	for ; v != nil && v.state != gone; v = v.before {
		rows = append(rows, v.rows...)
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// Committed returns when what an event says was committed.
func (r *Record) Committed(f Fact) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.facts[f]
	if !ok {
		return time.Time{}, false
	}
	return v.committed, true
}

// Counts returns how many states and how many changes without a new one were written.
func (r *Record) Counts() (states, quiet int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.quiet
}
