package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
)

// Daemon returns what the HTTP server shows: the app that runs.
func (p *Process) Daemon() httpapi.Daemon { return serving{p} }

// serving is the health of the app that runs. During a reload a process that was ready stays so.
type serving struct{ *Process }

var _ httpapi.Daemon = serving{}

func (s serving) health() health { return health{s.now.Load()} }

// Live implements httpapi.Daemon.
func (s serving) Live() error {
	h := s.health()
	since, _ := s.swap.under()
	if limit := h.opts.Config.ShutdownTimeout + heartbeatLimit; since > limit {
		return fmt.Errorf("a reload of the configuration has not ended for %s", since.Round(time.Second))
	}
	if since > 0 {
		return nil
	}
	return h.Live()
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
	h := s.health()
	fromSources, fromSink := h.probe(ctx)
	return h.reasons(fromSources, fromSink, starting)
}

// Status implements httpapi.Daemon.
func (s serving) Status() httpapi.Status { return s.health().Status() }

// Working implements httpapi.Daemon.
func (s serving) Working() (httpapi.Peer, error) { return s.health().Working() }

// Reconcile implements httpapi.Daemon.
func (s serving) Reconcile(stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	return s.health().Reconcile(stream, mode)
}

// Resend implements httpapi.Daemon.
func (s serving) Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	return s.health().Resend(ctx, request)
}

// ResendAll implements httpapi.Daemon.
func (s serving) ResendAll(ctx context.Context, stream string, dryRun bool) (httpapi.ResentAll, error) {
	return s.health().ResendAll(ctx, stream, dryRun)
}

// Entity implements httpapi.Daemon.
func (s serving) Entity(ctx context.Context, q httpapi.EntityQuery) (httpapi.Entity, error) {
	return s.health().Entity(ctx, q)
}

// EntityPage implements httpapi.Daemon.
func (s serving) EntityPage(ctx context.Context, q httpapi.PageQuery) (httpapi.EntityPage, error) {
	return s.health().EntityPage(ctx, q)
}

// Tail implements httpapi.Daemon. A listener listens to the apps after this one, too.
func (s serving) Tail(stream string) (*tap.Listener, error) { return s.health().Tail(stream) }

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
