package shard

import (
	"log/slog"
	"sync"
	"time"
)

// arrival logs two lines at each start: where the shard begins or resumes, and that it has caught
// up. It has once all rows that the table had when it was first read to its end are acknowledged.
// It is safe for concurrent use.
type arrival struct {
	mu    sync.Mutex
	since time.Time
	// events counts the messages that were acknowledged, position is how far they reach.
	events   int
	position uint64
	// end is the highest id of the table when it was read to its end first; known says that it was.
	end   uint64
	known bool
	// reached says that the tail has come to end, which position is yet to do.
	reached, done bool
}

// begin notes the first attempt that begins. resumes says that something was known of the shard.
func (a *arrival) begin(log *slog.Logger, position uint64, resumes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.position = position
	if !a.since.IsZero() {
		return
	}
	a.since = time.Now()
	if !resumes {
		log.Info("stream begins", "position", position)
		return
	}
	log.Info("stream resumes", "position", position)
}

// acknowledge notes messages that reach to a position.
func (a *arrival) acknowledge(log *slog.Logger, messages int, position uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events += messages
	a.position = max(a.position, position)
	a.report(log)
}

// read notes that the table was read to its end, at position. highest is its highest id: rows that
// are too young stay behind. It reports whether the shard had caught up before.
func (a *arrival) read(log *slog.Logger, position, highest uint64) (before bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before = a.reached; before {
		return true
	}
	if !a.known {
		a.known, a.end = true, highest
	}
	if position >= min(a.end, highest) {
		a.reached, a.end = true, position
		a.report(log)
	}
	return false
}

func (a *arrival) report(log *slog.Logger) {
	if a.done || !a.reached || a.position < a.end {
		return
	}
	a.done = true
	log.Info("caught up", "published", a.events, "position", a.position, "after", time.Since(a.since).Round(arrivalPrecision))
}

// arrivalPrecision is that of how long a start took.
const arrivalPrecision = 10 * time.Millisecond
