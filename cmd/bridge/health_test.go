package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"

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
	silent := make(chan struct{})
	waiting := at(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer close(silent)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": at(t, of(&httpapitest.Daemon{})), "BRIDGE_TYPO": "1", "BRIDGE_POLL_INTERVAL": "x"}, exitFine, "live", "health")
	got := mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(gone.URL, "http://")}, exitFailed, "BRIDGE_HTTP_ADDR", "health")
	if !strings.Contains(got.err, "refused") {
		t.Errorf("nobody listens: %+v", got)
	}
	defer func(longer time.Duration) { healthTimeout = longer }(healthTimeout)
	if healthTimeout = 50 * time.Millisecond; usualHealthTimeout != 3*time.Second {
		t.Errorf("it gives up after %s", usualHealthTimeout)
	}
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": waiting}, exitFailed, "no answer within 50ms", "health")
	for _, addr := range []string{"8080", "host:http", ":0", "a:b:c"} {
		mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": addr}, exitUsage, "BRIDGE_HTTP_ADDR: ", "health")
	}
}

func TestHealthAddress(t *testing.T) {
	for text, want := range map[string]string{
		"":               "127.0.0.1:8080",
		"0.0.0.0:81":     "127.0.0.1:81",
		"[::]:81":        "[::1]:81",
		"[2001:db8::]:1": "[2001:db8::]:1",
	} {
		if got, err := config.LoadHTTP([]string{"BRIDGE_HTTP_ADDR=" + text}); err != nil || got.Addr != want {
			t.Errorf("%q: %q, %v, want %q", text, got.Addr, err, want)
		}
	}
}
