package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
)

// fakeDaemon says what a test wants it to say.
type fakeDaemon struct {
	dead    error
	reasons []Reason
	status  Status
}

func (d *fakeDaemon) Live() error                    { return d.dead }
func (d *fakeDaemon) Ready(context.Context) []Reason { return d.reasons }
func (d *fakeDaemon) Status() Status                 { return d.status }

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
		{"has no reconcile yet", "POST", "/api/v1/streams/orders/reconcile", well, 404, ""},
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
	streams := []Stream{{Name: "orders", Kind: "capability"}, {Name: "bills", Kind: "release"}}
	polled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := statusOf(streams, []pipeline.Status{
		{Stream: "orders", Shard: "t_0", State: pipeline.Running, Position: 1<<64 - 1, OpenGaps: 2, Lag: 1500 * time.Millisecond, LastPoll: polled},
		{Stream: "orders", Shard: "t_1", State: pipeline.Stopped, LastError: "no such table"},
		{Stream: "bills", Shard: "b", State: pipeline.Waiting},
	})
	code, body := request(t, &fakeDaemon{status: status}, "GET", "/api/v1/status")
	want := `{"streams":[{"name":"orders","kind":"capability","state":"stopped","shards":[` +
		`{"shard":"t_0","state":"running","position":18446744073709551615,"openGaps":2,"gaps":{"hot":0,"cold":0,"inFlight":0,"oldestSeconds":0,"oldest":[]},"lagSeconds":1.5,"lastError":null,"lastPoll":"2026-01-02T03:04:05Z","reconcile":null},` +
		`{"shard":"t_1","state":"stopped","position":0,"openGaps":0,"gaps":{"hot":0,"cold":0,"inFlight":0,"oldestSeconds":0,"oldest":[]},"lagSeconds":0,"lastError":"no such table","lastPoll":null,"reconcile":null}]},` +
		`{"name":"bills","kind":"release","state":"waiting","shards":[` +
		`{"shard":"b","state":"waiting","position":0,"openGaps":0,"gaps":{"hot":0,"cold":0,"inFlight":0,"oldestSeconds":0,"oldest":[]},"lagSeconds":0,"lastError":null,"lastPoll":null,"reconcile":null}]}]}`
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
