package httpapitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
)

// Daemon says what a test wants it to say.
type Daemon struct {
	Dead    error
	Reasons []httpapi.Reason
	State   httpapi.Status
	// Requests are what was asked for, "orders/{DryRun:true AllowDeletes:false}"; Refuses is the
	// error that they get.
	Requests []string
	Refuses  error
	// Peer works, or none can be asked. The zero Peer is the daemon itself.
	Peer       httpapi.Peer
	NoneIsSeen error
	// Tap has the listeners.
	Tap tap.Tap
	// Resent is what becomes of all dead letters.
	Resent httpapi.ResentAll
	// Left is what a pause has not done yet.
	Left httpapi.Paused

	mu sync.Mutex
}

func (d *Daemon) note(request string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Requests = append(d.Requests, request)
}

// Asked returns Requests while requests may come.
func (d *Daemon) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.Requests...)
}

var _ httpapi.Daemon = (*Daemon)(nil)

// Live implements httpapi.Daemon.
func (d *Daemon) Live() error { return d.Dead }

// Ready implements httpapi.Daemon.
func (d *Daemon) Ready(context.Context) []httpapi.Reason { return d.Reasons }

// Status implements httpapi.Daemon.
func (d *Daemon) Status() httpapi.Status { return d.State }

// Working implements httpapi.Daemon.
func (d *Daemon) Working() (httpapi.Peer, error) {
	if d.Peer == (httpapi.Peer{}) {
		return httpapi.Peer{Self: true}, d.NoneIsSeen
	}
	return d.Peer, d.NoneIsSeen
}

// Reconcile implements httpapi.Daemon.
func (d *Daemon) Reconcile(stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	d.note(fmt.Sprintf("%s/%+v", stream, mode))
	return httpapi.Accepted{Stream: stream, Shards: 1, DryRun: mode.DryRun, AllowDeletes: mode.AllowDeletes, Started: d.State.Started}, d.Refuses
}

// Resend implements httpapi.Daemon.
func (d *Daemon) Resend(_ context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	d.note(fmt.Sprintf("%s/%s/%v/%d", request.Stream, request.Shard, request.DryRun, len(request.DeadLetters)))
	return make([]shard.ResendOutcome, len(request.DeadLetters)), d.Refuses
}

// ResendAll implements httpapi.Daemon.
func (d *Daemon) ResendAll(_ context.Context, stream string, dryRun bool) (httpapi.ResentAll, error) {
	d.note(fmt.Sprintf("%s/resend-all/%v", stream, dryRun))
	return d.Resent, d.Refuses
}

// Republish implements httpapi.Daemon.
func (d *Daemon) Republish(_ context.Context, request httpapi.RepublishRequest) (httpapi.Republished, error) {
	d.note(fmt.Sprintf("%s %d-%d %s %s cancel=%t", request.Stream, request.From, request.To, request.Keys, request.Where, request.Cancel))
	return httpapi.Republished{Stream: request.Stream, Shards: 1, To: request.To, NotOnBus: d.Left.NotOnBus}, d.Refuses
}

// Pause implements httpapi.Daemon.
func (d *Daemon) Pause(_ context.Context, request httpapi.PauseRequest) (httpapi.Paused, error) {
	d.note(fmt.Sprintf("%+v", request))
	done := httpapi.Paused{Stream: request.Stream, Shards: 1, Publishing: d.Left.Publishing, NotOnBus: d.Left.NotOnBus}
	if !request.Resume {
		done.PausedAt = d.Left.PausedAt
	}
	return done, d.Refuses
}

// Entity implements httpapi.Daemon.
func (d *Daemon) Entity(_ context.Context, q httpapi.EntityQuery) (httpapi.Entity, error) {
	d.note(fmt.Sprintf("%+v", q))
	return httpapi.Entity{Key: q.Key, Data: json.RawMessage("{}")}, d.Refuses
}

// EntityPage implements httpapi.Daemon.
func (d *Daemon) EntityPage(_ context.Context, q httpapi.PageQuery) (httpapi.EntityPage, error) {
	d.note(fmt.Sprintf("%+v", q))
	return httpapi.EntityPage{Entities: []httpapi.Entity{}, Next: "further"}, d.Refuses
}

// Tail implements httpapi.Daemon.
func (d *Daemon) Tail(stream string) (*tap.Listener, error) {
	if d.Refuses != nil {
		return nil, d.Refuses
	}
	return d.Tap.Listen(stream)
}

// Token is the token of all processes.
const Token = "0123456789abcdef"

// Access lets callers on this host do all, and others that have the Token.
var Access = httpapi.Access{Token: func() (string, error) { return Token, nil }, Setting: "X_TOKEN"}

// Serve listens with the pages of d until the test ends and returns host:port.
func Serve(t testing.TB, d httpapi.Daemon) string {
	t.Helper()
	server := httptest.NewUnstartedServer(Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), Access)))
	addr := server.Listener.Addr().String()
	Listens(d, addr)
	server.Start()
	t.Cleanup(server.Close)
	return addr
}

// Listens has d tell its group that it listens there, if it is a Daemon that works.
func Listens(d httpapi.Daemon, addr string) {
	if one, ok := d.(*Daemon); ok && one.Peer.Self {
		one.Peer.Addr = addr
	}
}

// Pages returns the pages of d. Their only metric is bridge_test_total.
func Pages(d httpapi.Daemon) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "bridge_test_total"}))
	return httpapi.Handler(d, registry, Access)
}

// Request returns what the pages of d answer.
func Request(t testing.TB, d httpapi.Daemon, method, path string) (status int, body string) {
	t.Helper()
	return RequestOf(t, Pages(d), method, path)
}

// RequestOf returns what h answers.
func RequestOf(t testing.TB, h http.Handler, method, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	Checked(t, h).ServeHTTP(w, NewRequest(t, method, path, nil))
	return w.Code, w.Body.String()
}

// NewRequest returns a request of a program on the same host.
func NewRequest(t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "127.0.0.1:8080"
	return r
}
