package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"

	"github.com/prometheus/client_golang/prometheus"
)

// usualHealthTimeout is that of the program, whose tests wait for longer.
var usualHealthTimeout = healthTimeout

// A bridge on a machine that is busy with other things answers within a minute.
func init() { healthTimeout = time.Minute }

func TestHealthCommand(t *testing.T) {
	at := func(t *testing.T, h http.Handler) string {
		t.Helper()
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	of := func(d httpapi.Daemon) http.Handler {
		return httpapi.Handler(d, prometheus.NewRegistry(), httpapi.Access{})
	}
	waits := &httpapitest.Daemon{Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "sink: bus is away"}}}

	t.Run("says that a bridge lives whose bus is away", func(t *testing.T) {
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(waits))}, "health")
		if got.status != exitFine || got.out != "live\n" || got.err != "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("says that a bridge is ready", func(t *testing.T) {
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(&httpapitest.Daemon{}))}, "health", "--ready")
		if got.status != exitFine || got.out != "ready\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("prints why a bridge is not ready", func(t *testing.T) {
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(waits))}, "health", "--ready")
		if got.status != exitFailed || got.out != "not ready\n  orders t_0: no such table\n  sink: bus is away\n" || !strings.Contains(got.err, "is not ready") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("prints why a bridge does not live", func(t *testing.T) {
		ill := &httpapitest.Daemon{Dead: errors.New("a loop stands still")}
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(ill))}, "health")
		if got.status != exitFailed || got.out != "not live\n  a loop stands still\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("asks this host where the daemon listens on all interfaces", func(t *testing.T) {
		_, port, err := net.SplitHostPort(at(t, of(&httpapitest.Daemon{})))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"", "0.0.0.0"} {
			if got := (outcome{}).call(settingsOf{"BRIDGE_HTTP_ADDR": host + ":" + port}, "health"); got.status != exitFine {
				t.Errorf("%s: %+v", host, got)
			}
		}
	})
	t.Run("reads no other variable", func(t *testing.T) {
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(&httpapitest.Daemon{})), "BRIDGE_TYPO": "1", "BRIDGE_POLL_INTERVAL": "x"}, "health")
		if got.status != exitFine {
			t.Errorf("%+v", got)
		}
	})
	t.Run("names the variable when nobody listens", func(t *testing.T) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(gone.URL, "http://")}, "health")
		if got.status != exitFailed || !strings.Contains(got.err, "refused") || !strings.Contains(got.err, "BRIDGE_HTTP_ADDR") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("believes nobody who is not a bridge", func(t *testing.T) {
		for _, h := range []http.HandlerFunc{http.NotFound, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }} {
			got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, h)}, "health")
			if got.status != exitFailed || !strings.Contains(got.err, "is not a bridge") {
				t.Errorf("%+v", got)
			}
		}
	})
	t.Run("gives up on who does not answer", func(t *testing.T) {
		let := make(chan struct{})
		silent := at(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-let }))
		defer close(let)
		defer func(longer time.Duration) { healthTimeout = longer }(healthTimeout)
		healthTimeout = usualHealthTimeout
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": silent}, "health")
		if got.status != exitFailed || !strings.Contains(got.err, "no answer within 3s") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("refuses a wrong address with status 2", func(t *testing.T) {
		for _, addr := range []string{"8080", "host:http", ":0", "a:b:c"} {
			got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": addr}, "health")
			if got.status != exitUsage || !strings.Contains(got.err, "BRIDGE_HTTP_ADDR: ") {
				t.Errorf("%s: %+v", addr, got)
			}
		}
	})
}

func TestHealthAddress(t *testing.T) {
	for text, want := range map[string]string{
		"":               "127.0.0.1:8080",
		":8080":          "127.0.0.1:8080",
		"0.0.0.0:81":     "127.0.0.1:81",
		"[::]:81":        "[::1]:81",
		"localhost:81":   "localhost:81",
		"192.0.2.7:81":   "192.0.2.7:81",
		"[2001:db8::]:1": "[2001:db8::]:1",
	} {
		if got, err := config.LoadHTTP([]string{"BRIDGE_HTTP_ADDR=" + text}); err != nil || got.Addr != want {
			t.Errorf("%q: %q, %v, want %q", text, got.Addr, err, want)
		}
	}
}
