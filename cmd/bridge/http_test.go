package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// fakeDaemon says what a test wants it to say.
type fakeDaemon struct {
	dead    error
	reasons []Reason
	status  Status
	// asked are the requests for a reconcile, "orders/{DryRun:true AllowDeletes:false}"; refuses is what becomes of them.
	asked   []string
	refuses error
}

func (d *fakeDaemon) Live() error                    { return d.dead }
func (d *fakeDaemon) Ready(context.Context) []Reason { return d.reasons }
func (d *fakeDaemon) Status() Status                 { return d.status }
func (d *fakeDaemon) Reconcile(stream string, mode reconcile.Mode) (Asked, error) {
	d.asked = append(d.asked, fmt.Sprintf("%s/%+v", stream, mode))
	return Asked{Stream: stream, Shards: 1, DryRun: mode.DryRun, AllowDeletes: mode.AllowDeletes, Started: d.status.Started}, d.refuses
}

func (d *fakeDaemon) Resend(_ context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error) {
	d.asked = append(d.asked, fmt.Sprintf("%s/%s/%v/%d", request.Stream, request.Shard, request.DryRun, len(request.Letters)))
	return make([]pipeline.LetterOutcome, len(request.Letters)), d.refuses
}

func request(t *testing.T, d daemon, method, path string) (status int, body string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "bridge_test_total"})
	registry.MustRegister(counter)
	w := httptest.NewRecorder()
	handler(d, registry).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	well := &fakeDaemon{}
	ill := &fakeDaemon{dead: errors.New("a loop stands still"), reasons: []Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "bus is away"}}}
	for _, c := range []struct {
		name, method, path string
		daemon             *fakeDaemon
		status             int
		body               string
	}{
		{"lives", "GET", "/livez", well, 200, `{"status":"live","reasons":[]}`},
		{"does not live", "GET", "/livez", ill, 503, `{"status":"not live","reasons":[{"reason":"a loop stands still"}]}`},
		{"is ready", "GET", "/readyz", well, 200, `{"status":"ready","reasons":[]}`},
		{"is not ready", "GET", "/readyz", ill, 503, `{"status":"not ready","reasons":[{"stream":"orders","shard":"t_0","reason":"no such table"},{"reason":"bus is away"}]}`},
		{"has metrics", "GET", "/metrics", well, 200, "bridge_test_total 0"},
		{"takes HEAD", "HEAD", "/readyz", well, 200, ""},
		{"takes no POST", "POST", "/livez", well, 405, ""},
		{"takes no DELETE", "DELETE", "/api/v1/status", well, 405, ""},
		{"has no page", "GET", "/", well, 404, ""},
		{"has nothing behind a path", "GET", "/livez/x", well, 404, ""},
		{"takes a request for a reconcile", "POST", "/api/v1/streams/orders/reconcile?dryRun=true", well, 202,
			`{"stream":"orders","shards":1,"dryRun":true,"allowDeletes":false,"started":"0001-01-01T00:00:00Z"}`},
		{"takes that by POST alone", "GET", "/api/v1/streams/orders/reconcile", well, 405, ""},
		{"knows the parameters", "POST", "/api/v1/streams/orders/reconcile?dryrun=true", well, 400, `unknown parameter \"dryrun\"`},
		{"judges the parameters", "POST", "/api/v1/streams/orders/reconcile?allowDeletes=please", well, 400, "must be true or false"},
		{"knows the streams", "POST", "/api/v1/streams/order/reconcile", &fakeDaemon{refuses: errNoStream}, 404, `{"error":"no such stream"}`},
		{"says why it cannot", "POST", "/api/v1/streams/orders/reconcile", &fakeDaemon{refuses: errCannot}, 409, `{"error":"cannot be reconciled now"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := request(t, c.daemon, c.method, c.path)
			if status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.body)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	streams := []Stream{{Name: "orders", Kind: "capability"}, {Name: "bills", Kind: "release"}, {Name: "apps", Kind: "capability"}}
	polled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := statusOf(streams, []snapshot{
		{Status: pipeline.Status{Stream: "orders", Shard: "t_0", State: pipeline.Running, Position: 1<<64 - 1, Highest: 7, OpenGaps: 2, Lag: 1500 * time.Millisecond, LastPoll: polled}},
		{Status: pipeline.Status{Stream: "orders", Shard: "t_1", State: pipeline.Stopped, LastError: "no such table"}, reconcile: reconcile.Status{Guard: "too many"}},
		{Status: pipeline.Status{Stream: "bills", Shard: "b", State: pipeline.Waiting}},
		{Status: pipeline.Status{Stream: "apps", Shard: "a", State: pipeline.Running}, reconcile: reconcile.Status{Guard: "too many"}},
	})
	status.Started = polled
	code, body := request(t, &fakeDaemon{status: status}, "GET", "/api/v1/status")
	const gaps = `"gaps":{"hot":0,"cold":0,"inFlight":0,"oldestSeconds":0,"oldest":[]}`
	none := func(guard string) string {
		return `"reconcile":{"running":false,"waiting":0,"dryRun":false,"startedAt":null,"endedAt":null,"rows":0,"rowsOf":0,"percent":0,"rowsPerSecond":0,"secondsLeft":0,` +
			`"added":0,"modified":0,"deleted":0,"missed":0,"absent":0,"resumed":false,"unjudged":null,"verifiedThrough":null,"guard":` + guard + `,"lastError":null,"nextAt":null,"lastRun":null,"lastDryRun":null}`
	}
	want := `{"started":"2026-01-02T03:04:05Z","streams":[{"name":"orders","kind":"capability","state":"stopped","shards":[` +
		`{"shard":"t_0","state":"running","position":18446744073709551615,"highest":7,"openGaps":2,` + gaps + `,"lagSeconds":1.5,"lastError":null,"lastPoll":"2026-01-02T03:04:05Z",` + none("null") + `},` +
		`{"shard":"t_1","state":"stopped","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":0,"lastError":"no such table","lastPoll":null,` + none(`"too many"`) + `}]},` +
		`{"name":"bills","kind":"release","state":"waiting","shards":[` +
		`{"shard":"b","state":"waiting","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":0,"lastError":null,"lastPoll":null,` + none("null") + `}]},` +
		`{"name":"apps","kind":"capability","state":"degraded","shards":[` +
		`{"shard":"a","state":"degraded","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":0,"lastError":"too many","lastPoll":null,` + none(`"too many"`) + `}]}]}`
	if code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("%d %s, want %s", code, body, want)
	}
}

func TestHTTPServer(t *testing.T) {
	open := func(addr string) (*httpServer, error) {
		return openHTTP(t.Context(), addr, &fakeDaemon{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	}
	t.Run("serves until it is told to end", func(t *testing.T) {
		server, err := open("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		response, err := http.Get("http://" + server.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || !json.Valid(body) || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %s", err, body)
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("does not end")
		}
	})
	t.Run("says which variable to change when the port is taken", func(t *testing.T) {
		first, err := open("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = first.listener.Close() }()
		_, err = open(first.Addr().String())
		if err == nil || !strings.Contains(err.Error(), "another process has the port") || !strings.Contains(err.Error(), "BRIDGE_HTTP_ADDR") {
			t.Errorf("error %v", err)
		}
		got := outcome{daemonError: err}.call(minimal())
		if got.status != exitFailed {
			t.Errorf("status %d", got.status)
		}
	})
}
