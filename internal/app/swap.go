package app

import (
	"sync"
	"time"
)

// swap tells health about a reload. It is safe for concurrent use.
type swap struct {
	mu sync.Mutex
	// began is when the app that runs was told to end, zero while no reload is under way. ended is
	// when the new one was there. wasReady is what the former one was.
	began, ended time.Time
	wasReady     bool
}

// graceAfter is how long after a reload a table that was not read yet does not make a process
// unready that was ready.
const graceAfter = time.Minute

// begin notes that an app is told to end.
func (s *swap) begin(a *App) {
	ready := len(health{a}.reasons(make([]error, len(a.sources.all)), nil, false)) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.wasReady = time.Now(), ready || s.wasReady && time.Since(s.ended) < graceAfter
}

func (s *swap) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.ended = time.Time{}, time.Now()
}

// under returns for how long a reload has been under way, 0 while none is. starting says that a
// process that was ready counts as ready while its tables are read for the first time.
func (s *swap) under() (since time.Duration, starting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began.IsZero() {
		since = time.Since(s.began)
	}
	return since, s.wasReady && (since > 0 || time.Since(s.ended) < graceAfter)
}
