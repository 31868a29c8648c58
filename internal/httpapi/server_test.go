package httpapi_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/tap"
)

// TestRequests has what each request is answered, and what the daemon is asked for.
func TestRequests(t *testing.T) {
	const streams, entities, keyed = "/api/v1/streams/orders/", "/api/v1/streams/orders/entities", "/api/v1/streams/orders/entity"
	well := &httpapitest.Daemon{}
	ill := &httpapitest.Daemon{Dead: errors.New("a loop stands still"), Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "bus is away"}}}
	many := &httpapitest.Daemon{Reasons: slices.Repeat([]httpapi.Reason{{Reason: "no such table"}}, 350)}
	refuses := func(err error) *httpapitest.Daemon { return &httpapitest.Daemon{Refuses: err} }
	unknown := refuses(httpapi.ErrNoStream)
	resent := &httpapitest.Daemon{Resent: httpapi.ResentAll{
		Found: 1, Fates: map[shard.Fate]int{shard.SentSame: 1}, DeadLetters: []httpapi.ResentDeadLetter{{Shard: "t", Row: 1<<64 - 1}},
	}}
	for _, c := range []struct {
		name, request string
		daemon        *httpapitest.Daemon
		status        int
		body, asked   string
	}{
		{"lives", "GET /livez", well, 200, `{"status":"live","reasons":[]}`, ""},
		{"does not live", "GET /livez", ill, 503, `{"status":"not live","reasons":[{"reason":"a loop stands still"}]}`, ""},
		{"is ready", "GET /readyz", well, 200, `{"status":"ready","reasons":[]}`, ""},
		{"is not ready", "GET /readyz", ill, 503, `{"stream":"orders","shard":"t_0","reason":"no such table"},{"reason":"bus is away"}]}`, ""},
		{"has no end of reasons", "GET /readyz", many, 503, `{"reason":"250 more reasons, which /api/v1/status has"}]}`, ""},
		{"has metrics", "GET /metrics", well, 200, "bridge_test_total 0", ""},
		{"takes HEAD", "HEAD /readyz", well, 200, "", ""},
		{"takes no POST", "POST /livez", well, 405, "", ""},
		{"takes no DELETE", "DELETE /api/v1/status", well, 405, "", ""},
		{"has a page", "GET /", well, 200, "<title>bridge</title>", ""},
		{"has it at that path alone", "GET /index.html", well, 404, "", ""},
		{"has nothing behind a path", "GET /livez/x", well, 404, "", ""},
		{"reconciles", "POST " + streams + "reconcile", well, 202, `"dryRun":false,"allowDeletes":false`, "orders/{DryRun:false AllowDeletes:false}"},
		{"reconciles dry", "POST " + streams + "reconcile?dryRun=1&allowDeletes=true", well, 202,
			`{"stream":"orders","shards":1,"dryRun":true,"allowDeletes":true,"started":"0001-01-01T00:00:00Z"}`, "orders/{DryRun:true AllowDeletes:true}"},
		{"takes that by POST alone", "GET " + streams + "reconcile", well, 405, "", ""},
		{"knows the parameters", "POST " + streams + "reconcile?dryrun=true", well, 400, `unknown parameter \"dryrun\"`, ""},
		{"judges the parameters", "POST " + streams + "reconcile?allowDeletes=please", well, 400, "must be true or false", ""},
		{"needs a value", "POST " + streams + "reconcile?dryRun", well, 400, "must be true or false", ""},
		{"takes a parameter once", "POST " + streams + "reconcile?dryRun=true&dryRun=false", well, 400, "must be true or false, once", ""},
		// What is dropped of such a query might have been dryRun=true.
		{"drops nothing of a query", "POST " + streams + "reconcile?dryRun=true;", well, 400, "", ""},
		{"drops no escape", "POST " + streams + "reconcile?dryRun=%zz", well, 400, "", ""},
		{"knows the streams", "POST /api/v1/streams/order/reconcile", unknown, 404, `{"error":"no such stream"}`, "order/{DryRun:false AllowDeletes:false}"},
		{"says why it cannot", "POST " + streams + "reconcile", refuses(httpapi.ErrCannotReconcile), 409, `{"error":"cannot be reconciled now"}`,
			"orders/{DryRun:false AllowDeletes:false}"},
		{"sends all again, dry", "POST " + streams + "resend-all?dryRun=true", resent, 200,
			`{"found":1,"more":false,"fates":{"same":1},"letters":[{"shard":"t","row":18446744073709551615,`, "orders/resend-all/true"},
		{"sends all again", "POST " + streams + "resend-all", resent, 200, "", "orders/resend-all/false"},
		{"allows no deletes there", "POST " + streams + "resend-all?allowDeletes=true", resent, 400, "", ""},
		{"knows the streams there", "POST " + streams + "resend-all", unknown, 404, "", "orders/resend-all/false"},
		{"says why not there", "POST " + streams + "resend-all", refuses(httpapi.ErrCannotResend), 409, "", "orders/resend-all/false"},
		{"resends by POST alone", "GET " + streams + "resend-all", well, 405, "", ""},
		{"resends a list by POST alone", "GET " + streams + "resend", well, 405, "", ""},
		{"shows an entity", "GET " + entities + "/eu%2B17", well, 200, `{"key":"eu+17"`, "{Stream:orders Key:eu+17 Shard:}"},
		{"shows one of a table", "GET " + entities + "/17?shard=t_0", well, 200, `{"key":"17"`, "{Stream:orders Key:17 Shard:t_0}"},
		{"takes a slash and an escape in a key", "GET " + entities + "/a%2Fb%252Bc", well, 200, `{"key":"a/b%2Bc"`, "{Stream:orders Key:a/b%2Bc Shard:}"},
		{"takes an empty key", "GET " + keyed + "?key=", well, 200, `{"key":""`, "{Stream:orders Key: Shard:}"},
		{"takes a key that a path cannot have", "GET " + keyed + "?key=..&shard=t_0", well, 200, `{"key":".."`, "{Stream:orders Key:.. Shard:t_0}"},
		{"needs a key", "GET " + keyed, well, 400, "?key=", ""},
		{"does not know the entity", "GET " + entities + "/17", refuses(httpapi.ErrNoEntity), 404, "no such entity", "{Stream:orders Key:17 Shard:}"},
		{"does not serve the stream", "GET " + entities + "/17", refuses(httpapi.ErrNotServed), 404, "not served", "{Stream:orders Key:17 Shard:}"},
		{"waits for the source", "GET " + entities + "/17", refuses(errors.New("away")), 503, "away", "{Stream:orders Key:17 Shard:}"},
		{"knows the parameters of entities", "GET " + entities + "/17?table=t_0", well, 400, `unknown parameter \"table\"`, ""},
		{"shows a page", "GET " + entities, well, 200, `{"entities":[],"next":"further"}`, "{Stream:orders After: Limit:100}"},
		{"shows a further page", "GET " + entities + "?after=t_0%2F17&limit=5", well, 200, `"entities"`, "{Stream:orders After:t_0/17 Limit:5}"},
		{"bounds a page", "GET " + entities + "?limit=1001", well, 400, "limit must be 1 to 1000", ""},
		{"shows at least one", "GET " + entities + "?limit=0", well, 400, "limit must be 1 to 1000", ""},
		{"bounds the tables of a status", "GET /api/v1/status?limit=-1", well, 400, "limit must be 0 to", ""},
		{"bounds their offset", "GET /api/v1/status?offset=1000001", well, 400, "offset must be", ""},
		{"knows the states", "GET /api/v1/status?state=bad", well, 400, "state must be one of stopped, degraded", ""},
		{"knows the parameters of a status", "GET /api/v1/status?limt=1", well, 400, `unknown parameter \"limt\"`, ""},
		{"knows the parameters of a tail", "GET /api/v1/tail?streams=orders", well, 400, "", ""},
		{"knows the streams of a tail", "GET /api/v1/tail?stream=x", unknown, 404, "", ""},
		{"bounds those who listen", "GET /api/v1/tail", refuses(tap.ErrTooMany), 503, "8 listen already", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.daemon.Requests = nil
			method, path, _ := strings.Cut(c.request, " ")
			path, query, _ := strings.Cut(path, "?")
			w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, method, path, nil)
			r.URL.RawQuery = query
			httpapitest.Checked(t, httpapitest.Pages(c.daemon)).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.body)
			}
			if got := strings.Join(c.daemon.Requests, ", "); got != c.asked {
				t.Errorf("asked for %q, want %q", got, c.asked)
			}
		})
	}
}

func TestThePortIsTaken(t *testing.T) {
	addr, _ := serve(t, &httpapitest.Daemon{}, httpapi.Access{}, io.Discard)
	_, err := httpapi.Open(t.Context(), httpapi.Options{
		Addr: addr, Daemon: &httpapitest.Daemon{}, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, httpapi.ErrPortTaken) || !strings.Contains(err.Error(), "another process has the port") {
		t.Errorf("error %v", err)
	}
}
