package demo

import (
	"context"
	"slices"
	"sync"
	"time"
)

// SeenWithin is how long a state has to last to be surely read: by the tail, or by a reconcile.
const SeenWithin = 10 * time.Second

// lookAgain is the pause between two looks at something that is waited for.
const lookAgain = 50 * time.Millisecond

func sleep(ctx context.Context) error {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Seen is the set of facts that have an event. It is safe for concurrent use; the zero value is ready.
type Seen struct {
	mu    sync.Mutex
	facts map[Fact]bool
}

// Add enters the fact of an event.
func (s *Seen) Add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts == nil {
		s.facts = make(map[Fact]bool)
	}
	s.facts[e.Fact()] = true
}

// Drained blocks until everything that must have an event has one, or ctx ends.
func (s *Seen) Drained(ctx context.Context, record *Record) {
	for {
		s.mu.Lock()
		lost, _ := record.without(s.facts)
		s.mu.Unlock()
		if len(lost) == 0 || sleep(ctx) != nil {
			return
		}
	}
}

// Verdict is what the bus holds compared with what was written.
type Verdict struct {
	// States and Quiet, changes without a new state, were written; Events are on the bus.
	States, Quiet, Events int
	// Lost are states without an event; Brief counts those that were over before they could be read.
	Lost  []Fact
	Brief int
	// Unknown counts events about what nobody wrote, Repeated those about what had an event already, Stale entities whose last
	// event is not their last state.
	Unknown, Repeated, Stale int
	// Late counts the events that came in a gap, Modified those of the second cursor, Reconciled those of a reconcile.
	Late, Modified, Reconciled int
	// P50 and P99 are times from a COMMIT until the stream held the event, save those of a reconcile; 0 without events.
	P50, P99 time.Duration
}

// Judge compares all events of the stream with the record. The writers must have ended.
func Judge(events []Event, record *Record) Verdict {
	v := Verdict{Events: len(events)}
	v.States, v.Quiet = record.Counts()
	seen := make(map[Fact]bool, len(events))
	told := make(map[*version]bool, len(events))
	// fold is what the events leave of each entity.
	fold := make(map[name]*version)
	var latencies []time.Duration
	for _, e := range events {
		v.origin(e)
		fact := e.Fact()
		version, known := record.facts[fact]
		switch {
		case !known:
			v.Unknown++
			continue
		case told[version]:
			v.Repeated++
			continue
		}
		seen[fact], told[version] = true, true
		fold[name{fact.Table, version.entity}] = version
		if e.Origin != "reconcile" {
			latencies = append(latencies, max(0, e.Stored.Sub(version.committed)))
		}
	}
	v.Lost, v.Brief = record.without(seen)
	v.Stale = record.stale(told, fold)
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		v.P50, v.P99 = latencies[(n-1)/2], latencies[(n-1)*99/100]
	}
	return v
}

// origin counts what noticed an event.
func (v *Verdict) origin(e Event) {
	switch e.Origin {
	case "late":
		v.Late++
	case "modified":
		v.Modified++
	case "reconcile":
		v.Reconciled++
	}
}

// without returns what is not in seen: the states that must be there, and how many were over soon.
func (r *Record) without(seen map[Fact]bool) (lost []Fact, brief int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := make(map[*version]bool, len(seen))
	for fact := range seen {
		if v, ok := r.facts[fact]; ok {
			told[v] = true
		}
	}
	for entity, v := range r.last {
		for ; v != nil; v = v.before {
			switch {
			case told[v] || !v.isNews(told):
			case v.ended.IsZero() || v.ended.Sub(v.committed) > SeenWithin:
				lost = append(lost, Fact{entity.table, v.rows[len(v.rows)-1], v.state})
			default:
				brief++
			}
		}
	}
	return lost, brief
}

// isNews reports whether v is another state than what was told of its entity last. That an entity is gone which was never
// there, or was deleted already, is none.
func (v *version) isNews(told map[*version]bool) bool {
	last := v.before
	for last != nil && !told[last] {
		last = last.before
	}
	switch {
	case v.state == gone:
		return last != nil && last.state != gone && last.state != marked
	default:
		return last == nil || last.state != v.state
	}
}

// stale counts the entities of which the last state was told, and an older one after it.
func (r *Record) stale(told map[*version]bool, fold map[name]*version) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for entity, v := range r.last {
		if told[v] && fold[entity].state != v.state {
			n++
		}
	}
	return n
}
