package httpapi_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
)

const token = httpapitest.Token

func access(text string, err error) httpapi.Access {
	return httpapi.Access{Token: func() (string, error) { return text, err }, Setting: "X_TOKEN"}
}

// TestWhoMayDoWhat: a change needs a caller on loopback or the token, rows that are served and the
// entities that a dry run has found do where there is a token, and all else is open.
func TestWhoMayDoWhat(t *testing.T) {
	const remote, own = "192.0.2.7:4711", "127.0.0.1:4711"
	none, set := httpapi.Access{Setting: "X_TOKEN"}, access(token, nil)
	unreadable := access("", errors.New("X_TOKEN_FILE names no file"))
	const change, rows, status = "POST /api/v1/streams/orders/reconcile", "GET /api/v1/streams/orders/entities", "GET /api/v1/status"
	for _, c := range []struct {
		name, request string
		access        httpapi.Access
		from, host    string
		headers       string
		status        int
		words         string
	}{
		{"a change on loopback", change, none, own, "127.0.0.1:8080", "", 202, ""},
		{"by IPv6", change, none, "[::1]:4711", "[::1]:8080", "", 202, ""},
		{"on loopback, with a token set", change, set, own, "127.0.0.1:8080", "", 202, ""},
		{"from another host", change, none, remote, "bridge:8080", "", 403, "set X_TOKEN for this bridge"},
		{"from another host that says it is this one", change, none, remote, "127.0.0.1:8080", "X-Forwarded-For: 127.0.0.1", 403, "set X_TOKEN"},
		{"with the token", change, set, remote, "bridge:8080", "Authorization: Bearer " + token, 202, ""},
		{"with the token, however the scheme is spelt", change, set, remote, "bridge:8080", "Authorization: bearer " + token, 202, ""},
		{"with another token", change, set, remote, "bridge:8080", "Authorization: Bearer " + token + "0", 401, "another one"},
		{"by another scheme", change, set, remote, "bridge:8080", "Authorization: Basic " + token, 401, "another one"},
		{"without the token", change, set, remote, "bridge:8080", "", 401, "send that of X_TOKEN"},
		{"with a token that cannot be read", change, unreadable, remote, "bridge:8080", "Authorization: Bearer ", 503, "X_TOKEN_FILE names no file"},
		{"by a name that a page has given to loopback", change, none, own, "evil.example:8080", "", 403, "ask 127.0.0.1 directly"},
		{"through a proxy on loopback", change, set, own, "127.0.0.1:8080", "X-Forwarded-For: 192.0.2.7", 401, "another one"},
		{"through a sidecar", change, none, "127.0.0.6:4711", "127.0.0.1:8080", "X-Envoy-Attempt-Count: 1", 403, ""},
		{"rows without a token set", rows, none, remote, "bridge:8080", "", 200, ""},
		{"rows with a token set", rows, set, remote, "bridge:8080", "", 401, "another one"},
		{"rows with the token", rows, set, remote, "bridge:8080", "Authorization: Bearer " + token, 200, ""},
		{"rows on loopback", rows, set, own, "127.0.0.1:8080", "", 200, ""},
		{"rows by a name that a page has given to loopback", rows, none, own, "evil.example:8080", "", 403, "ask 127.0.0.1 directly"},
		{"rows for a page of another site", rows, set, own, "127.0.0.1:8080", "Origin: https://evil.example", 401, ""},
		{"rows for a page of this bridge", rows, set, own, "127.0.0.1:8080", "Origin: http://127.0.0.1:8080", 200, ""},
		{"the status", status, set, remote, "bridge:8080", "", 200, ""},
		{"the status with its entities, on loopback", status, set, own, "127.0.0.1:8080", "", 200, "ada@shop.example"},
		{"that with the token", status, set, remote, "bridge:8080", "Authorization: Bearer " + token, 200, "ada@shop.example"},
		{"that without a token set", status, none, remote, "bridge:8080", "", 200, "ada@shop.example"},
		{"the metrics", "GET /metrics", set, remote, "bridge:8080", "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dry := &httpapi.ReconcileReport{DryRun: true, Differences: []httpapi.DifferenceStatus{{What: "deleted", Entity: "ada@shop.example"}}}
			d := &httpapitest.Daemon{State: httpapi.Status{Streams: []httpapi.StreamStatus{{
				Name: "people", State: "running", Shards: []httpapi.ShardStatus{{Shard: "people", State: "running", Reconcile: &httpapi.ReconcileStatus{LastDryRun: dry}}},
			}}}}
			method, path, _ := strings.Cut(c.request, " ")
			w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			if name, value, ok := strings.Cut(c.headers, ": "); ok {
				r.Header.Set(name, value)
			}
			httpapitest.Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), c.access)).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.words) || strings.Contains(w.Body.String(), token) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.words)
			}
			if c.words == "" && strings.Contains(w.Body.String(), "ada@") {
				t.Errorf("it shows an entity: %s", w.Body)
			}
			if asked := len(d.Requests) > 0; asked && w.Code >= 400 {
				t.Errorf("was done: %v", d.Requests)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (w.Code == 401) {
				t.Errorf("WWW-Authenticate %q with %d", got, w.Code)
			}
		})
	}
}
