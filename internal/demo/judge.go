package demo

import (
	"context"
	"slices"
	"sync"
	"time"
)

// SeenWithin is how long a row has to be there to be surely read.
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

// Seen is the set of rows that have an event. It is safe for concurrent use; the zero value is ready.
type Seen struct {
	mu   sync.Mutex
	rows map[Row]bool
}

// Add enters the row of an event.
func (s *Seen) Add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = make(map[Row]bool)
	}
	s.rows[e.Row] = true
}

// Drained blocks until every row that must have an event has one, or ctx ends.
func (s *Seen) Drained(ctx context.Context, record *Record) {
	for {
		s.mu.Lock()
		lost, _ := record.without(s.rows)
		s.mu.Unlock()
		if len(lost) == 0 || sleep(ctx) != nil {
			return
		}
	}
}

// Verdict is what the bus holds compared with what was written.
type Verdict struct {
	// Rows and Heartbeats were written, Events are on the bus.
	Rows, Heartbeats, Events int
	// Lost are rows without an event; Gone counts those that were replaced or purged before they could be read.
	Lost []Row
	Gone int
	// Unknown counts events about rows that nobody wrote, Repeated events that are there more than once or whose row has
	// another one, Late those that came in a gap.
	Unknown, Repeated, Late int
	// P50 and P99 are times from a row's COMMIT until the stream held its event; 0 without events.
	P50, P99 time.Duration
}

// Judge compares all events of the stream with the record. The writers must have ended.
func Judge(events []Event, record *Record) Verdict {
	v := Verdict{Events: len(events)}
	v.Rows, v.Heartbeats = record.Counts()
	seen := make(map[Row]bool, len(events))
	var latencies []time.Duration
	for _, e := range events {
		if e.Origin == "late" {
			v.Late++
		}
		committed, known := record.Committed(e.Row)
		switch {
		case !known:
			v.Unknown++
			continue
		case seen[e.Row]:
			v.Repeated++
			continue
		}
		seen[e.Row] = true
		latencies = append(latencies, max(0, e.Stored.Sub(committed)))
	}
	v.Lost, v.Gone = record.without(seen)
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		v.P50, v.P99 = latencies[(n-1)/2], latencies[(n-1)*99/100]
	}
	return v
}
