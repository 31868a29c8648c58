package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/reconcile"
)

// TestForwarding: a process that waits has the one that works answer, and takes no other one for
// it.
func TestForwarding(t *testing.T) {
	const path = "/api/v1/streams/orders/reconcile?dryRun=true"
	works := &httpapitest.Daemon{Peer: httpapi.Peer{Self: true, Member: "a"}, State: httpapi.Status{Delivery: "of a"}}
	at := httpapitest.Serve(t, works)
	waits := func(member, addr string) *httpapitest.Daemon {
		return &httpapitest.Daemon{Peer: httpapi.Peer{Member: member, Name: member + " on host", Addr: addr}, State: httpapi.Status{Delivery: "of one that waits"}}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(other.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	third := waits("a", at)
	for _, c := range []struct {
		name, method, path string
		daemon             *httpapitest.Daemon
		status             int
		body               string
	}{
		{"a request is forwarded", "POST", path, waits("a", at), 202, `"dryRun":true`},
		{"so is its refusal", "POST", "/api/v1/streams/orders/reconcile?dry=true", waits("a", at), 400, "unknown parameter"},
		{"the status is its own", "GET", "/api/v1/status", waits("a", at), 200, "of one that waits"},
		{"or that of the one that works", "GET", "/api/v1/status?working=true", waits("a", at), 200, `"of a"`},
		{"of the one that works it is its own either way", "GET", "/api/v1/status?working=true", works, 200, `"of a"`},
		{"the one that has the address by now is another member", "POST", path, waits("b", at), 502, "b on host works, and was not reached at " + at + ": another process answers there"},
		{"one that waits forwards no further", "POST", path, waits("a", httpapitest.Serve(t, third)), 502, "another process answers there"},
		{"another program has the address", "POST", path, waits("a", strings.TrimPrefix(other.URL, "http://")), 502, "another process answers there (status 202)"},
		{"nobody listens", "POST", path, waits("a", strings.TrimPrefix(closed.URL, "http://")), 502, "connection refused: run the command where it runs"},
		{"none works", "POST", path, &httpapitest.Daemon{NoneIsSeen: httpapi.ErrNoStream}, 503, `{"error":"no such stream"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(works.Requests)
			status, body := httpapitest.Request(t, c.daemon, c.method, c.path)
			if status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.body)
			}
			if n := len(works.Requests) - before; n > 0 != (c.status == http.StatusAccepted) {
				t.Errorf("the one that works was asked %d times", n)
			}
		})
	}
	if len(third.Requests) > 0 {
		t.Errorf("one that waits has done %v", third.Requests)
	}
	t.Run("the client reads what was answered", func(t *testing.T) {
		client := httpapi.Client{Addr: httpapitest.Serve(t, waits("b", at)), Setting: "HTTP"}
		if _, err := client.Working(t.Context()); err == nil || !strings.Contains(err.Error(), "b on host works, and was not reached") {
			t.Error(err)
		}
		if _, err := client.Reconcile(t.Context(), "orders", reconcile.Mode{}); err == nil || !strings.Contains(err.Error(), "b on host works, and was not reached") {
			t.Error(err)
		}
	})
}
