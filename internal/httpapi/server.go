package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"
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
	Addr string
	// Daemon returns the one that answers a request.
	Daemon func() Daemon
	// Reload reads the configuration again; nil where that cannot be asked for.
	Reload  Reload
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
	closing, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{server: &http.Server{
		Handler:        handler(&o, closing),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxRequestBytes,
		ErrorLog:       log.New(errorLines{o.Logger}, "", 0),
	}}
	s.server.RegisterOnShutdown(end)
	s.serve = s.server.Serve
	if files := o.Access.TLS; files.Cert != "" {
		shown := &certificate{files: files, log: o.Logger}
		if _, err := shown.get(nil); err != nil {
			return nil, err
		}
		s.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: shown.get}
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
	return handler(&Options{Daemon: func() Daemon { return d }, Metrics: metrics, Access: access}, context.Background())
}

// handler is Handler. Answers without an end do end once closing does.
func handler(o *Options, closing context.Context) http.Handler {
	d, access := o.Daemon, &o.Access
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { live(w, d) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, d) })
	works := &forwarder{daemon: d, access: access}
	status := statusHandler(works)
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, r *http.Request) {
		if ofDomain(r) && r.Host != o.Addr {
			access.guard(toRead, status).ServeHTTP(w, r)
			return
		}
		status.ServeHTTP(w, r)
	})
	changes := func(h http.Handler) http.Handler {
		return http.NewCrossOriginProtection().Handler(access.guard(toChange, works.byWorking(toChange, h)))
	}
	reads := func(h http.Handler) http.Handler { return access.guard(toRead, works.byWorking(toRead, h)) }
	mux.Handle("POST /api/v1/streams/{name}/reconcile", changes(bodiless(reconcileHandler(d))))
	mux.Handle("POST /api/v1/streams/{name}/pause", changes(bodiless(pauseHandler(d, false))))
	mux.Handle("POST /api/v1/streams/{name}/resume", changes(bodiless(pauseHandler(d, true))))
	mux.Handle("POST /api/v1/streams/{name}/republish", changes(republishHandler(d)))
	if o.Reload != nil {
		// It is about the process that is asked, also of one that waits as a standby.
		mux.Handle("POST /api/v1/reload", http.NewCrossOriginProtection().Handler(access.guard(toChange, reloadHandler(o.Reload))))
	}
	mux.Handle("POST /api/v1/streams/{name}/resend", changes(resendHandler(d)))
	mux.Handle("GET /api/v1/streams/{name}/entities", reads(atMost(entityPages, entitiesHandler(d))))
	mux.Handle("GET /api/v1/streams/{name}/entities/{key}", reads(entityHandler(d)))
	mux.Handle("GET /api/v1/streams/{name}/entity", reads(entityHandler(d)))
	mux.Handle("GET /api/v1/tail", access.guard(toChange, until(closing, works.byWorking(toChange, tailHandler(d)))))
	mux.HandleFunc("GET /api/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The client may have gone.
		_, _ = w.Write(OpenAPI)
	})
	mux.Handle("POST /api/v1/streams/{name}/resend-all", changes(bodiless(resendAllHandler(d))))
	page := pageHandler()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /page/", page)
	mux.Handle("GET /docs/", page)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
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

// bodiless refuses a body that says something to what has parameters alone: that might have been
// dryRun=true, too.
func bodiless(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if text := string(bytes.TrimSpace(body)); err != nil || text != "" && text != "{}" {
			answer(w, http.StatusBadRequest, refused{"the body is not read: parameters stand behind the path, as in ?dryRun=true or ?table=t"})
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

func live(w http.ResponseWriter, d func() Daemon) {
	if err := d().Live(); err != nil {
		answer(w, http.StatusServiceUnavailable, Readiness{"not live", []Reason{{Reason: err.Error()}}})
		return
	}
	answer(w, http.StatusOK, Readiness{"live", []Reason{}})
}

// mostUnready bounds the answer of /readyz, which is asked for every few seconds.
const mostUnready = 100

func ready(w http.ResponseWriter, r *http.Request, d func() Daemon) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), readyTimeout, errReadyTimeout)
	defer cancel()
	if reasons := d().Ready(ctx); len(reasons) > 0 {
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
	// Data of entities has the same form as in events.
	text.SetEscapeHTML(false)
	_ = text.Encode(body)
}

// Access says who may request changes and read rows. A caller on loopback may always: it is on this
// host, or in this pod. Others need the token.
type Access struct {
	// Token returns the token; it is asked at each request that needs it. Nil: there is none.
	Token func() (string, error)
	// Setting names the setting of the token, for texts.
	Setting string
	// Text returns an error for people, who know settings by other names. Nil is Error.
	Text func(error) string
	// TLS has the certificate of the server, and what it trusts where it asks the process that
	// works.
	TLS TLS
}

// A need is what a request may be refused for. A proof of another process names it.
type need string

const (
	// toChange is the need of a request that changes something: the caller is on loopback or has
	// the token. It is that of a tail, too, which shows rows without a setting that offers them.
	toChange need = "change"
	// toRead is the need of a request for rows that the settings offer to everybody: the caller is
	// on loopback or has the token, where there is one.
	toRead need = "read"
)

var (
	errWrongToken = errors.New("the token is missing, or is another one")
	errByName     = errors.New("a request over loopback names this host otherwise or has a header of a proxy, so it may be of a page in a browser, or come from elsewhere")
)

func (a *Access) guard(n need, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := a.refuses(n, r)
		if err == nil {
			h.ServeHTTP(w, r)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="bridge"`)
		}
		answer(w, status, refused{err.Error()})
	})
}

func (a *Access) mayRead(r *http.Request) bool {
	status, _ := a.refuses(toRead, r)
	return status == 0
}

// refuses returns the status and the reason with which a request is refused, 0 for none. A
// forwarded request counts as one from elsewhere, wherever the other process is, and its caller may
// do what its proof says: that was decided where it entered.
func (a *Access) refuses(n need, r *http.Request) (int, error) {
	shown, _ := r.Context().Value(provedKey{}).(proved)
	elsewhere := isForwarded(r) || !isLoopback(r.RemoteAddr)
	switch {
	case isLocal(r), shown.err == nil && (shown.may == toChange || shown.may == n):
		return 0, nil
	case a.Token == nil && n == toRead && elsewhere:
		return 0, nil
	case a.Token == nil && !elsewhere:
		return http.StatusForbidden, fmt.Errorf("%w: ask 127.0.0.1 directly, or set %s and send it as Authorization: Bearer", errByName, a.Setting)
	case a.Token == nil:
		return http.StatusForbidden, fmt.Errorf("callers from other hosts need a token, and none is set: set %s for this bridge and send it as Authorization: Bearer, or type the command where bridge runs", a.Setting)
	}
	token, err := a.Token()
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("the token cannot be read, so nobody has it: %w", err)
	}
	if shown.err != nil {
		return http.StatusUnauthorized, shown.err
	}
	// It takes as long for a wrong one.
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(sent)))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return http.StatusUnauthorized, fmt.Errorf("%w: send that of %s as Authorization: Bearer, as the commands do where it is set", errWrongToken, a.Setting)
	}
	return 0, nil
}

// isLocal reports whether a program on this host has sent a request. A page in a browser has not,
// whatever name it has given to 127.0.0.1, and a proxy that says so has not: it is on this host,
// and those who use it are elsewhere. What a proxy says of them is not believed.
func isLocal(r *http.Request) bool {
	return isLoopback(r.RemoteAddr) && isLoopback(r.Host) && !fromElsewhere(r) && !proxied(r.Header) && !isForwarded(r)
}

// ofDomain reports whether a request over loopback names this host with a domain and is none of a
// proxy: it may be of a page in a browser, whose domain leads here since the page was loaded.
func ofDomain(r *http.Request) bool {
	isDomain := strings.Contains(r.Host, ".") && strings.ContainsFunc(r.Host, unicode.IsLetter)
	return isDomain && isLoopback(r.RemoteAddr) && !proxied(r.Header) && !isForwarded(r)
}

// isForwarded reports whether another process of a standby group has sent a request.
func isForwarded(r *http.Request) bool { return len(r.Header.Values(memberHeader)) > 0 }

// isLoopback reports whether host, with or without a port, is an address of loopback or localhost.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}

// fromElsewhere reports whether a browser says that the page of another site asks.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	page, err := url.Parse(origin)
	return err != nil || page.Host != r.Host
}

func proxied(header http.Header) bool {
	for name := range header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Envoy-") {
			return true
		}
	}
	return false
}

// errorLines is what net/http writes its errors to: those of clients, mostly.
type errorLines struct{ logger *slog.Logger }

func (e errorLines) Write(line []byte) (int, error) {
	e.logger.Debug("the HTTP server says", "text", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// Probe finds out whether the source or the bus can be reached. All requests share one call at a
// time. A request is answered in time even if the call hangs.
type Probe struct {
	Ready func(context.Context) error

	calls singleflight.Group
}

// Do returns the result of the call under way, or of a new one. If ctx ends first, it returns the
// cause.
func (p *Probe) Do(ctx context.Context) error {
	result := p.calls.DoChan("", func() (any, error) {
		// The call serves later requests, too, so it has its own time limit. The end of the process
		// does not wait for it.
		ctx, cancel := context.WithTimeoutCause(context.Background(), readyTimeout, errReadyTimeout)
		defer cancel()
		return nil, p.Ready(ctx)
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
