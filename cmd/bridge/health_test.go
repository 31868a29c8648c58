package main

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
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

// TestCommandsOverTLS: in the container, whose certificate is not for 127.0.0.1, and elsewhere with
// the authorities alone.
func TestCommandsOverTLS(t *testing.T) {
	t.Parallel()
	certs, s := testenv.NewCerts(t), newShop(t)
	s.env["BRIDGE_HTTP_TLS_CERT"], s.env["BRIDGE_HTTP_TLS_KEY"] = certs.NamedCert, certs.NamedKey
	s.startDaemon()
	for line, words := range map[string]string{"health": "live", "health --ready": "ready", "status": "orders orders running", "reconcile": "orders orders"} {
		s.call(exitFine, words, line)
	}
	elsewhere := &shop{Shop: s.Shop, t: t, env: maps.Clone(s.env)}
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_CERT")
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_KEY")
	elsewhere.call(exitFailed, "it speaks TLS: set BRIDGE_HTTP_TLS_CA: see that it runs", "health")
	elsewhere.env["BRIDGE_HTTP_TLS_CA"] = certs.CA
	elsewhere.call(exitFailed, "127.0.0.1", "health")
	s.env["BRIDGE_HTTP_TLS_CERT"] = certs.ServerCert
	s.call(exitFailed, "its certificate is not trusted: x509: certificate signed by unknown authority: see BRIDGE_HTTP_TLS_CA", "health")
	s.call(exitUsage, "BRIDGE_HTTP_TLS_CERT: and BRIDGE_HTTP_TLS_KEY name files that are no pair", "run")
}

// TestTheDocumentOfARunningBridge: requests of all kinds get answers that the OpenAPI document has.
func TestTheDocumentOfARunningBridge(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_SERVE"], s.env["BRIDGE_STREAM_ORDERS_DEAD_LETTER"] = "true", "bridge.dead-letter"
	s.startDaemon()
	// A tail has no end. Whether a table or a next page is there is not for a schema to say.
	asks := testenv.Fetched("schemathesis", "python-openapi", "bin/schemathesis", "run", "http://"+s.env["BRIDGE_HTTP_ADDR"]+"/api/v1/openapi.json", "--seed=1", "--max-examples=20", "--exclude-path=/api/v1/tail",
		"--checks=all", "--exclude-checks=ignored_auth,positive_data_acceptance", "--request-timeout=30", "--no-color")
	asks.Dir = t.TempDir() // it keeps files of its runs
	asks.Run(t)
}
