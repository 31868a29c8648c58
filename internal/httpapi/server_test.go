package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHandler(t *testing.T) {
	well := &httpapitest.Daemon{}
	ill := &httpapitest.Daemon{Dead: errors.New("a loop stands still"), Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "bus is away"}}}
	many := &httpapitest.Daemon{Reasons: slices.Repeat([]httpapi.Reason{{Reason: "no such table"}}, 350)}
	for _, c := range []struct {
		name, method, path string
		daemon             *httpapitest.Daemon
		status             int
		body               string
	}{
		{"lives", "GET", "/livez", well, 200, `{"status":"live","reasons":[]}`},
		{"does not live", "GET", "/livez", ill, 503, `{"status":"not live","reasons":[{"reason":"a loop stands still"}]}`},
		{"is ready", "GET", "/readyz", well, 200, `{"status":"ready","reasons":[]}`},
		{"is not ready", "GET", "/readyz", ill, 503, `{"status":"not ready","reasons":[{"stream":"orders","shard":"t_0","reason":"no such table"},{"reason":"bus is away"}]}`},
		{"has no end of reasons", "GET", "/readyz", many, 503, `{"reason":"no such table"},{"reason":"250 more reasons, which /api/v1/status has"}]}`},
		{"has metrics", "GET", "/metrics", well, 200, "bridge_test_total 0"},
		{"takes HEAD", "HEAD", "/readyz", well, 200, ""},
		{"takes no POST", "POST", "/livez", well, 405, ""},
		{"takes no DELETE", "DELETE", "/api/v1/status", well, 405, ""},
		{"has a page", "GET", "/", well, 200, "<title>bridge</title>"},
		{"has it at that path alone", "GET", "/index.html", well, 404, ""},
		{"changes nothing there", "POST", "/", well, 405, ""},
		{"has nothing behind a path", "GET", "/livez/x", well, 404, ""},
		{"takes a request for a reconcile", "POST", "/api/v1/streams/orders/reconcile?dryRun=true", well, 202,
			`{"stream":"orders","shards":1,"dryRun":true,"allowDeletes":false,"started":"0001-01-01T00:00:00Z"}`},
		{"takes that by POST alone", "GET", "/api/v1/streams/orders/reconcile", well, 405, ""},
		{"knows the parameters", "POST", "/api/v1/streams/orders/reconcile?dryrun=true", well, 400, `unknown parameter \"dryrun\"`},
		{"judges the parameters", "POST", "/api/v1/streams/orders/reconcile?allowDeletes=please", well, 400, "must be true or false"},
		{"knows the streams", "POST", "/api/v1/streams/order/reconcile", &httpapitest.Daemon{Refuses: httpapi.ErrNoStream}, 404, `{"error":"no such stream"}`},
		{"says why it cannot", "POST", "/api/v1/streams/orders/reconcile", &httpapitest.Daemon{Refuses: httpapi.ErrCannotReconcile}, 409, `{"error":"cannot be reconciled now"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := httpapitest.Request(t, c.daemon, c.method, c.path)
			if status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.body)
			}
		})
	}
}

func TestHTTPServer(t *testing.T) {
	open := func(addr string) (*httpapi.Server, error) {
		return httpapi.Open(t.Context(), httpapi.Options{Addr: addr, Daemon: &httpapitest.Daemon{}, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	}
	t.Run("says so when the port is taken", func(t *testing.T) {
		first, err := open("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		defer func() { _ = first.Run(ended) }()
		_, err = open(first.Addr().String())
		if !errors.Is(err, httpapi.ErrPortTaken) || !strings.Contains(err.Error(), "another process has the port") {
			t.Errorf("error %v", err)
		}
	})
}

func TestModeOfARequest(t *testing.T) {
	d := &httpapitest.Daemon{}
	for _, query := range []string{"", "?dryRun=false", "?dryRun=1&allowDeletes=true"} {
		if status, body := httpapitest.Request(t, d, "POST", "/api/v1/streams/orders/reconcile"+query); status != http.StatusAccepted {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	want := "[orders/{DryRun:false AllowDeletes:false} orders/{DryRun:false AllowDeletes:false} orders/{DryRun:true AllowDeletes:true}]"
	if got := fmt.Sprint(d.Requests); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	for _, query := range []string{"?dryRun", "?dryRun=true&dryRun=false", "?dry-run=true", "?allowdeletes=true"} {
		if status, body := httpapitest.Request(t, d, "POST", "/api/v1/streams/orders/reconcile"+query); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}
