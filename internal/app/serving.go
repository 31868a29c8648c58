package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/internal/httpapi"
)

// Daemon returns what the HTTP server shows now: the app that runs.
func (p *Process) Daemon() httpapi.Daemon { return serving{health{p.now.Load()}, &p.swap} }

// serving is the health of the app that runs. During a reload a process that was ready stays so.
type serving struct {
	health
	swap *swap
}

// Live implements httpapi.Daemon.
func (s serving) Live() error {
	since, _ := s.swap.under()
	switch limit := s.opts.Config.ShutdownTimeout + heartbeatLimit; {
	case since > limit:
		return fmt.Errorf("a reload of the configuration has not ended for %s", since.Round(time.Second))
	case since > 0:
		return nil
	}
	return s.health.Live()
}

// Ready implements httpapi.Daemon.
func (s serving) Ready(ctx context.Context) []httpapi.Reason {
	since, starting := s.swap.under()
	switch {
	case since > 0 && starting:
		// Source and sink are closed and opened.
		return nil
	case since > 0:
		return []httpapi.Reason{{Reason: "the configuration is being reloaded"}}
	}
	fromSources, fromSink := s.probe(ctx)
	return s.reasons(fromSources, fromSink, starting)
}

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
