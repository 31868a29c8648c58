package main

import (
	"errors"
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

	for name, c := range map[string]struct {
		of       http.Handler
		line     string
		status   int
		out, err string
	}{
		"says that a bridge lives whose bus is away": {of(waits), "health", exitFine, "live\n", ""},
		"says that a bridge is ready":                {of(&httpapitest.Daemon{}), "health --ready", exitFine, "ready\n", ""},
		"prints why a bridge is not ready": {
			of(waits), "health --ready", exitFailed, "not ready\n  orders t_0: no such table\n  sink: bus is away\n", "is not ready",
		},
		"prints why a bridge does not live": {
			of(&httpapitest.Daemon{Dead: errors.New("a loop stands still")}), "health", exitFailed, "not live\n  a loop stands still\n", "",
		},
		"believes nobody who is not a bridge": {http.NotFoundHandler(), "health", exitFailed, "", "is not a bridge"},
		"nor one that answers otherwise": {
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }), "health", exitFailed, "", "is not a bridge",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at(t, c.of)}, strings.Fields(c.line)...)
			if got.status != c.status || got.out != c.out || !strings.Contains(got.err, c.err) || c.status == exitFine && got.err != "" {
				t.Errorf("%+v", got)
			}
		})
	}
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
