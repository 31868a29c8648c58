package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of a request. Answers are small and come from memory, except /readyz, which asks the
// source and the bus.
const (
	readTimeout     = 5 * time.Second
	writeTimeout    = 15 * time.Second
	idleTimeout     = time.Minute
	readyTimeout    = 5 * time.Second
	maxRequestBytes = 16 << 10
	// statusAnswers and entityPages are how many are answered at a time: with thousands of tables a
	// whole status takes megabytes, and a page of entities may.
	statusAnswers = 8
	entityPages   = 8
)

// closingTimeout bounds the requests that are under way at the end.
var closingTimeout = time.Second

// ErrPortTaken is returned when another process listens on the address.
var ErrPortTaken = errors.New("another process has the port")

var errReadyTimeout = errors.New("source or bus did not answer in time")

// Options set up a Server.
type Options struct {
	// Addr is host:port; port 0 is a free one.
	Addr    string
	Daemon  Daemon
	Metrics prometheus.Gatherer
	Access  Access
	Logger  *slog.Logger
}

// Server shows the daemon to probes, Prometheus and people.
type Server struct {
	listener net.Listener
	server   *http.Server
	// serve is Serve or ServeTLS of server.
	serve func(net.Listener) error
}

// Open binds the port; Run serves it. The error is ErrPortTaken if another process listens there.
func Open(ctx context.Context, o Options) (*Server, error) {
	closing := make(chan struct{})
	s := &Server{server: &http.Server{
		Handler:        handler(o.Daemon, o.Metrics, o.Access, closing),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxRequestBytes,
		ErrorLog:       errorLog(o.Logger),
	}}
	s.server.RegisterOnShutdown(func() { close(closing) })
	s.serve = s.server.Serve
	if files := o.Access.TLS; files.Cert != "" {
		shown := certificate{files: files, log: o.Logger}
		var err error
		if s.server.TLSConfig, err = shown.config(); err != nil {
			return nil, err
		}
		s.serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	var err error
	s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w", o.Addr, ErrPortTaken)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Addr, err)
	}
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx is cancelled, then lets requests under way end for up to a second. It
// returns nil on cancellation.
func (s *Server) Run(ctx context.Context) error {
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTimeout)
		defer cancel()
		if err := s.server.Shutdown(limit); err != nil {
			err = s.server.Close()
			closed <- err
			return
		}
		closed <- nil
	})
	err := s.serve(s.listener)
	if stop() {
		return fmt.Errorf("serve HTTP on %s: %w", s.listener.Addr(), err)
	}
	return <-closed
}

// Handler answers the paths of bridge. It refuses a POST that a browser sends from a page of
// another origin, and what access does not allow.
func Handler(d Daemon, metrics prometheus.Gatherer, access Access) http.Handler {
	return handler(d, metrics, access, nil)
}

// handler is Handler. Answers without an end do end once closing is closed.
func handler(d Daemon, metrics prometheus.Gatherer, access Access, closing <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { live(w, d) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, d) })
	works := &forwarder{daemon: d, access: &access}
	mux.Handle("GET /api/v1/status", statusHandler(works))
	changes := func(h http.Handler) http.Handler {
		return http.NewCrossOriginProtection().Handler(access.guard(toChange, works.byWorking(toChange, h)))
	}
	reads := func(h http.Handler) http.Handler { return access.guard(toRead, works.byWorking(toRead, h)) }
	mux.Handle("POST /api/v1/streams/{name}/reconcile", changes(reconcileHandler(d)))
	mux.Handle("POST /api/v1/streams/{name}/resend", changes(resendHandler(d)))
	mux.Handle("GET /api/v1/streams/{name}/entities", reads(atMost(entityPages, entitiesHandler(d))))
	mux.Handle("GET /api/v1/streams/{name}/entities/{key}", reads(entityHandler(d)))
	mux.Handle("GET /api/v1/streams/{name}/entity", reads(keyedHandler(d)))
	mux.Handle("GET /api/v1/tail", access.guard(toChange, until(closing, works.byWorking(toChange, tailHandler(d)))))
	mux.Handle("GET /api/v1/openapi.json", openAPIHandler())
	mux.Handle("POST /api/v1/streams/{name}/resend-all", changes(resendAllHandler(d)))
	mux.Handle("GET /{$}", pageHandler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return wellFormed(works.admit(mux))
}

// wellFormed refuses a query that cannot be parsed as a whole: what is dropped of it might have
// been dryRun=true.
func wellFormed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			answer(w, http.StatusBadRequest, refused{"the parameters cannot be read: " + err.Error()})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// atMost lets so many requests be answered at a time, and refuses others: an answer is in memory
// until its reader has taken it.
func atMost(n int, h http.Handler) http.Handler {
	free := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			h.ServeHTTP(w, r)
		default:
			refuse(w, fmt.Errorf("%d such requests are being answered: ask again in a moment", n), http.StatusServiceUnavailable)
		}
	})
}

// Readiness is the answer of /livez and /readyz.
type Readiness struct {
	Status  string   `json:"status"`
	Reasons []Reason `json:"reasons"`
}

func live(w http.ResponseWriter, d Daemon) {
	if err := d.Live(); err != nil {
		answer(w, http.StatusServiceUnavailable, Readiness{"not live", []Reason{{Reason: err.Error()}}})
		return
	}
	answer(w, http.StatusOK, Readiness{"live", []Reason{}})
}

// mostUnready bounds the answer of /readyz, which is asked for every few seconds.
const mostUnready = 100

func ready(w http.ResponseWriter, r *http.Request, d Daemon) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), readyTimeout, errReadyTimeout)
	defer cancel()
	if reasons := d.Ready(ctx); len(reasons) > 0 {
		if more := len(reasons) - mostUnready; more > 0 {
			reasons = append(reasons[:mostUnready], Reason{Reason: fmt.Sprintf("%d more reasons, which /api/v1/status has", more)})
		}
		answer(w, http.StatusServiceUnavailable, Readiness{"not ready", reasons})
		return
	}
	answer(w, http.StatusOK, Readiness{"ready", []Reason{}})
}

// answer writes body as JSON. It ignores errors, because the client may have gone.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	text := json.NewEncoder(w)
	// Data of entities stay as they are in events.
	text.SetEscapeHTML(false)
	_ = text.Encode(body)
}
