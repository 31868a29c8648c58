package demo

import (
	"context"
	"slices"
	"sync"
	"time"
)

// ReadWithin is how long a state has to last to be certainly read: by the tail, or by a reconcile.
const ReadWithin = 10 * time.Second

// pollEvery is the pause between two looks at something that is waited for.
const pollEvery = 50 * time.Millisecond

func sleep(ctx context.Context) error {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Received is the set of facts that have an event. It is safe for concurrent use; the zero value is
// ready.
type Received struct {
	mu    sync.Mutex
	facts map[Fact]bool
}

// Add enters the fact of an event.
func (r *Received) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.facts == nil {
		r.facts = make(map[Fact]bool)
	}
	r.facts[e.Fact()] = true
}

// WaitDrained blocks until everything that must have an event has one, or ctx ends.
func (r *Received) WaitDrained(ctx context.Context, record *Record) {
	for {
		r.mu.Lock()
		missing := record.without(r.facts)
		r.mu.Unlock()
		if len(missing.lost) == 0 || sleep(ctx) != nil {
			return
		}
	}
}

// Verdict is what the bus holds compared with what was written.
type Verdict struct {
	// States were written, Silent counts writes that made no new state; Events are on the bus.
	States, Silent, Events int
	// Lost are states without an event. Brief counts those that were over before they could be
	// read, Unchanged those that were the state published last again when they were read.
	Lost             []Fact
	Brief, Unchanged int
	// Unknown counts events about facts that nobody wrote, Repeated those about a fact that had an
	// event already, Stale entities whose last event is not their last state.
	Unknown, Repeated, Stale int
	// Late counts the events that filled a gap, Modified those of the second cursor, Reconciled
	// those of a reconcile.
	Late, Modified, Reconciled int
	// P50 and P99 are times from a COMMIT until the stream held the event, except for those of a
	// reconcile; 0 without events.
	P50, P99 time.Duration
}

// Compare compares all events of the stream with the record. The writers must have ended.
func Compare(events []Event, record *Record) Verdict {
	v := Verdict{Events: len(events)}
	v.States, v.Silent = record.Counts()
	facts := make(map[Fact]bool, len(events))
	published := make(map[*version]bool, len(events))
	// fold is what the events leave of each entity.
	fold := make(map[name]*version)
	var latencies []time.Duration
	for _, e := range events {
		v.count(e.Origin)
		fact := e.Fact()
		version, known := record.facts[fact]
		switch {
		case !known:
			v.Unknown++
			continue
		case published[version]:
			v.Repeated++
			continue
		}
		facts[fact], published[version] = true, true
		fold[name{fact.Table, version.entity}] = version
		if e.Origin != "reconcile" {
			latencies = append(latencies, max(0, e.Stored.Sub(version.committed)))
		}
	}
	missing := record.without(facts)
	v.Lost, v.Brief, v.Unchanged = missing.lost, missing.brief, missing.unchanged
	v.Stale = record.stale(published, fold)
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		v.P50, v.P99 = latencies[(n-1)/2], latencies[(n-1)*99/100]
	}
	return v
}

// count counts an event by its origin.
func (v *Verdict) count(origin string) {
	switch origin {
	case "late":
		v.Late++
	case "modified":
		v.Modified++
	case "reconcile":
		v.Reconciled++
	}
}

// missing are the states without an event: lost, over too soon, or no news to a consumer.
type missing struct {
	lost             []Fact
	brief, unchanged int
}

// without returns the states that are not among facts.
func (r *Record) without(facts map[Fact]bool) missing {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m missing
	published := make(map[*version]bool, len(facts))
	for fact := range facts {
		if v, ok := r.facts[fact]; ok {
			published[v] = true
		}
	}
	for entity, v := range r.last {
		for ; v != nil; v = v.before {
			switch {
			case published[v]:
			case !v.isNews(published):
				m.unchanged++
			case v.ended.IsZero() || v.ended.Sub(v.committed) > ReadWithin:
				m.lost = append(m.lost, Fact{entity.table, v.rows[len(v.rows)-1], v.state})
			default:
				m.brief++
			}
		}
	}
	return m
}

// isNews reports whether v is another state than the one published before it of its entity. An
// entity that is gone and was never published, or was deleted already, is no news.
func (v *version) isNews(published map[*version]bool) bool {
	last := v.before
	for last != nil && !published[last] {
		last = last.before
	}
	if v.state == goneState {
		return last != nil && last.state != goneState && last.state != deletedState
	}
	return last == nil || last.state != v.state
}

// stale counts the entities of which the last state was published, and an older one after it.
func (r *Record) stale(published map[*version]bool, fold map[name]*version) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for entity, v := range r.last {
		if published[v] && fold[entity].state != v.state {
			n++
		}
	}
	return n
}
