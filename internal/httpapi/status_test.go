package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

// ofManyTables is a daemon with 2,000 tables, of which a few are not running, and a stream beside.
func ofManyTables() *httpapitest.Daemon {
	shards := make([]shard.Status, 2000)
	for i := range shards {
		lag := float64(i % 10)
		shards[i] = shard.Status{Shard: fmt.Sprintf("Orders_%04d", i), State: "running", LagSeconds: &lag, Reconcile: &reconcile.Status{}}
	}
	shards[7].State, shards[1204].State, shards[1300].State = "waiting", "stopped", "waiting"
	shards[5].LagSeconds = nil
	dry := &reconcile.Report{Result: reconcile.Result{DryRun: true, Absent: 30}, Differences: make([]reconcile.Difference, 100)}
	for i := range dry.Differences {
		dry.Differences[i] = reconcile.Difference{What: "modified", Row: uint64(i)}
	}
	dry.Differences[99].What = "deleted"
	shards[7].Reconcile = &reconcile.Status{LastDryRun: dry}
	return &httpapitest.Daemon{State: httpapi.Status{Started: time.Now(), Streams: []httpapi.StreamStatus{
		{Name: "orders", State: "stopped", Shards: shards}, {Name: "bills", State: "running", Shards: []shard.Status{{Shard: "bills", State: "running"}}},
	}}}
}

func selected(t *testing.T, d *httpapitest.Daemon, query string) (status httpapi.Status, body string) {
	t.Helper()
	code, body := httpapitest.Request(t, d, "GET", "/api/v1/status"+query)
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != 200 {
		t.Fatalf("%d, %v", code, err)
	}
	return status, body
}

// ofSixStreams is a daemon with streams in several states, of two tables but for one.
func ofSixStreams() *httpapitest.Daemon {
	d := &httpapitest.Daemon{State: httpapi.Status{Started: time.Now()}}
	for i, state := range []shard.State{"running", "waiting", "running", "stopped", "running"} {
		name := string(rune('a' + i))
		shards := []shard.Status{{Shard: "shop." + name, State: state}, {Shard: "shop." + name + "_2", State: "running"}}
		d.State.Streams = append(d.State.Streams, httpapi.StreamStatus{Name: "S" + name, State: state, Shards: shards})
	}
	d.State.Streams = append(d.State.Streams, httpapi.StreamStatus{Name: "without", State: "running", Shards: []shard.Status{}})
	return d
}

// TestSelection: streams with a selected table are listed in pages, the worst first, and so are
// their tables. Summaries and totals are about all, and what is listed does not change the daemon.
func TestSelection(t *testing.T) {
	daemons := map[string]*httpapitest.Daemon{"many tables": ofManyTables(), "six streams": ofSixStreams()}
	configtest.Recorded(t, "testdata/selection.txt", *httpapi.Update, func(t *testing.T, input []string) string {
		status, body := selected(t, daemons[input[0]], input[1])
		if strings.Contains(body, `"shards":null`) {
			t.Error("a list is null")
		}
		var said strings.Builder
		for _, one := range status.Streams {
			fmt.Fprint(&said, one.Name, ":")
			for _, s := range one.Shards {
				fmt.Fprint(&said, " ", s.Shard)
			}
			if sum := one.Summary; sum != nil {
				lag, _ := json.Marshal(sum.LagSeconds)
				fmt.Fprintf(&said, "; %d of %d tables: %v, lag %s, %d without", sum.Matching, sum.Shards, sum.States, lag, sum.LagUnknown)
			}
			fmt.Fprintln(&said)
		}
		total := status.Totals
		fmt.Fprintf(&said, "from %d of %d streams of %d, %d tables: %v\n", total.Offset, total.Matching, total.Streams, total.Shards, total.States)
		return said.String()
	})
	d := daemons["many tables"]
	if s := d.State.Streams[0]; len(s.Shards) != 2000 || s.Shards[0].Shard != "Orders_0000" || s.Summary != nil || len(s.Shards[7].Reconcile.LastDryRun.Differences) != 100 {
		t.Errorf("%d shards, %+v", len(s.Shards), s.Summary)
	}
	if s := daemons["six streams"].State.Streams; s[0].Name != "Sa" || s[0].Summary != nil {
		t.Error("what is listed changes the daemon")
	}
	if _, body := httpapitest.Request(t, ofManyTables(), "GET", "/api/v1/status?stream=orders&streams=1&limit=20&examples=0"); len(body) > 40<<10 {
		t.Errorf("what the page asks for has %d bytes", len(body))
	}
	// Examples are bounded, deletes first.
	status, _ := selected(t, d, "?state=waiting&examples=3")
	dry, sum := status.Streams[0].Shards[0].Reconcile.LastDryRun, status.Streams[0].Summary.Reconcile.DryRun
	if len(dry.Differences) != 3 || len(sum.Differences) != 3 || sum.Absent != 30 || sum.Differences[0].What != "deleted" || sum.Differences[0].Shard != "Orders_0007" {
		t.Errorf("%+v, %+v", dry, sum)
	}
}

// TestSummaryHasTheWorstTable with its reason.
func TestSummaryHasTheWorstTable(t *testing.T) {
	d := ofManyTables()
	shard := &d.State.Streams[0].Shards[1204]
	shard.Reason, shard.Remedy = "no such table", "create it"
	status, _ := selected(t, d, "?limit=0")
	worst := status.Streams[0].Summary.Worst
	if worst == nil || worst.Shard != "Orders_1204" || worst.State != "stopped" || worst.Reason != "no such table" || worst.Remedy != "create it" || worst.Cause != "" {
		t.Errorf("%+v", worst)
	}
	if status.Streams[1].Summary.Worst != nil {
		t.Error("a stream that runs has a worst table")
	}
}

func post(t *testing.T, d httpapi.Daemon, path, body, origin string) (status int, text string) {
	w, r := httptest.NewRecorder(), httpapitest.NewRequest(t, "POST", path, strings.NewReader(body))
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	httpapitest.Checked(t, httpapi.Handler(d, prometheus.NewRegistry(), httpapitest.Access)).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRequestsToResend(t *testing.T) {
	const path = "/api/v1/streams/orders/resend"
	const refused = `{"row":17,"event":"6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}`
	body := func(list ...string) string {
		return `{"shard":"t_0","dryRun":true,"letters":[` + strings.Join(list, ",") + `]}`
	}
	for _, c := range []struct {
		name, path, body, origin string
		refuses                  error
		status                   int
		words                    string
	}{
		{"is taken", path, body(refused, refused), "", nil, 200, `{"letters":[{"fate":"","event":"","type":"","why":""},{`},
		{"knows the streams", path, body(refused), "", httpapi.ErrNoStream, 404, "no such stream"},
		{"says why it cannot", path, body(refused), "", httpapi.ErrCannotResend, 409, "cannot send dead letters again now"},
		{"says when it takes too long", path, body(refused), "", httpapi.ErrResendTimeout, 504, "not done within"},
		{"has no parameters", path + "?dryRun=true", body(refused), "", nil, 400, "there are no parameters"},
		{"needs letters", path, body(), "", nil, 400, "1 to 100 dead letters"},
		{"but not too many", path, body(strings.Split(strings.Repeat(refused+";", 100)+refused, ";")...), "", nil, 400, "1 to 100 dead letters"},
		{"needs a table", path, `{"letters":[` + refused + `]}`, "", nil, 400, "needs a shard"},
		{"knows the members", path, `{"shard":"t_0","dry":true,"letters":[` + refused + `]}`, "", nil, 400, `unknown field`},
		{"needs an event each", path, body(refused, `{"row":17,"event":"17"}`), "", nil, 400, "dead letter 2 has no event"},
		{"needs an event each that is one", path, body(`{"row":17}`), "", nil, 400, "dead letter 1 has no event"},
		{"is bounded", path, body(`{"type":"` + strings.Repeat("x", httpapi.MaxResendBytes) + `"}`), "", nil, 413, "send fewer dead letters"},
		{"needs a body", path, "", "", nil, 400, "read the body"},
		{"has a list of letters", path, `{"shard":"t_0","letters":{"row":17}}`, "", nil, 400, "letters must be a list"},
		{"ends behind the object", path, body(refused) + `{"dryRun":false}`, "", nil, 400, "something follows"},
		{"does not come from a page of another origin", path, body(refused), "https://elsewhere.example", nil, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			works := &httpapitest.Daemon{Refuses: c.refuses, Peer: httpapi.Peer{Self: true, Member: "a"}}
			waits := &httpapitest.Daemon{Peer: httpapi.Peer{Member: "a", Addr: httpapitest.Serve(t, works)}}
			if status, text := post(t, waits, c.path, c.body, c.origin); status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("by way of a process that waits: %d %s, want %d with %s", status, text, c.status, c.words)
			}
			d := &httpapitest.Daemon{Refuses: c.refuses}
			status, text := post(t, d, c.path, c.body, c.origin)
			if status != c.status || !strings.Contains(text, c.words) {
				t.Errorf("%d %s, want %d with %s", status, text, c.status, c.words)
			}
			if (status == 200 || c.refuses != nil) != (len(d.Requests) == 1) {
				t.Errorf("asked for %v", d.Requests)
			}
		})
	}
}

func TestALongListTakesLittleMemory(t *testing.T) {
	text := `{"shard":"t_0","letters":[` + strings.Repeat("{},", httpapi.MaxResendBytes/4) + `{}]}`
	r := httptest.NewRequest("POST", "/", strings.NewReader(text))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := httpapi.ResendRequestOf(httptest.NewRecorder(), r)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "1 to 100 dead letters") || took > 8*httpapi.MaxResendBytes {
		t.Errorf("%v: a body of %d bytes takes %d bytes", err, len(text), took)
	}
}

func TestResendByTheRunningBridge(t *testing.T) {
	d := &httpapitest.Daemon{Refuses: errors.New("t_0 is stopped")}
	b := &httpapi.Client{Addr: httpapitest.Serve(t, d)}
	ask := httpapi.ResendRequest{Stream: "orders", Shard: "t_0", DryRun: true, DeadLetters: []shard.DeadLetter{{Row: 1, Event: "6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e"}}}
	if _, err := b.Resend(t.Context(), ask); err == nil || err.Error() != "t_0 is stopped" {
		t.Errorf("%v", err)
	}
	d.Refuses = nil
	if outcomes, err := b.Resend(t.Context(), ask); err != nil || len(outcomes) != 1 || d.Requests[1] != "orders/t_0/true/1" {
		t.Errorf("%v, %v, asked %v", outcomes, err, d.Requests)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	b.Addr = strings.TrimPrefix(server.URL, "http://")
	if _, err := b.Resend(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "sends no dead letters again (status 404)") {
		t.Errorf("%v", err)
	}
}
