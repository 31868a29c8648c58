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

func TestSelectionOfShards(t *testing.T) {
	d := ofManyTables()
	for _, c := range []struct {
		query, listed string
		matching      int
	}{
		{"?limit=5", "Orders_1204 Orders_0007 Orders_1300 Orders_0005 Orders_0009 | bills", 2000},
		{"?limit=2&offset=3", "Orders_0005 Orders_0009 |", 2000},
		{"?limit=1&offset=5000", "|", 2000},
		{"?limit=0", "|", 2000},
		{"?state=waiting", "Orders_0007 Orders_1300 |", 2},
		{"?contains=ers_120&limit=2", "Orders_1204 Orders_1209 |", 10},
		{"?stream=bills", "| bills", 0},
		{"?stream=none", "|", 0},
	} {
		t.Run(c.query, func(t *testing.T) {
			status, body := selected(t, d, c.query)
			var names []string
			for _, stream := range status.Streams {
				var list []string
				for _, s := range stream.Shards {
					list = append(list, s.Shard)
				}
				names = append(names, strings.Join(list, " "))
			}
			sum := status.Streams[0].Summary
			if got := strings.TrimSpace(strings.Join(names, " | ")); got != c.listed || sum.Matching != c.matching {
				t.Errorf("lists %q of %d, want %q of %d", got, sum.Matching, c.listed, c.matching)
			}
			if sum.Shards != 2000 || sum.States["waiting"] != 2 || sum.States["running"] != 1997 || *sum.LagSeconds != 9 || sum.LagUnknown != 1 {
				t.Errorf("the summary is not about all shards: %+v", sum)
			}
			if strings.Contains(body, `"shards":null`) {
				t.Error("a list is null")
			}
		})
	}
	if _, body := httpapitest.Request(t, ofManyTables(), "GET", "/api/v1/status?stream=orders&streams=1&limit=20&examples=0"); len(body) > 40<<10 {
		t.Errorf("what the page asks for has %d bytes", len(body))
	}
	t.Run("what is listed does not change the daemon", func(t *testing.T) {
		if s := d.State.Streams[0]; len(s.Shards) != 2000 || s.Shards[0].Shard != "Orders_0000" || s.Summary != nil || len(s.Shards[7].Reconcile.LastDryRun.Differences) != 100 {
			t.Errorf("%d shards, %+v", len(s.Shards), s.Summary)
		}
	})
	t.Run("examples are bounded, deletes first", func(t *testing.T) {
		status, _ := selected(t, d, "?state=waiting&examples=3")
		dry, sum := status.Streams[0].Shards[0].Reconcile.LastDryRun, status.Streams[0].Summary.Reconcile.DryRun
		if len(dry.Differences) != 3 || len(sum.Differences) != 3 || sum.Absent != 30 || sum.Differences[0].What != "deleted" || sum.Differences[0].Shard != "Orders_0007" {
			t.Errorf("%+v, %+v", dry, sum)
		}
	})
}

// TestSelectionOfStreams: those with a selected table are listed in pages, the worst first, and the
// totals are about all.
func TestSelectionOfStreams(t *testing.T) {
	d := &httpapitest.Daemon{State: httpapi.Status{Started: time.Now()}}
	for i, state := range []shard.State{"running", "waiting", "running", "stopped", "running"} {
		name := string(rune('a' + i))
		shards := []shard.Status{{Shard: "shop." + name, State: state}, {Shard: "shop." + name + "_2", State: "running"}}
		d.State.Streams = append(d.State.Streams, httpapi.StreamStatus{Name: "S" + name, State: state, Shards: shards})
	}
	d.State.Streams = append(d.State.Streams, httpapi.StreamStatus{Name: "without", State: "running", Shards: []shard.Status{}})
	for _, c := range []struct {
		query, listed    string
		matching, offset int
	}{
		{"streams=3&limit=0", "Sd Sb Sa", 6, 0},
		{"streams=3&streamOffset=3", "Sc Se without", 6, 3},
		{"streams=3&streamOffset=9", "", 6, 6},
		{"streams=0", "", 6, 0},
		{"streams=9&state=waiting", "Sb", 1, 0},
		{"streams=9&contains=SHOP.A", "Sa", 1, 0},
		{"streams=9&contains=sa", "Sa", 1, 0},
		{"streams=9&contains=out", "without", 1, 0},
		{"streams=9&contains=_2&state=stopped", "", 0, 0},
		{"streams=1&stream=Se&state=stopped", "Se", 1, 0},
		{"streams=1&stream=none", "", 0, 0},
		{"state=waiting", "Sa Sb Sc Sd Se without", 6, 0},
	} {
		t.Run(c.query, func(t *testing.T) {
			status, _ := selected(t, d, "?"+c.query)
			var names []string
			for _, one := range status.Streams {
				names = append(names, one.Name)
			}
			total := status.Totals
			if got := strings.Join(names, " "); got != c.listed || total.Matching != c.matching || total.Offset != c.offset {
				t.Errorf("lists %q, %+v, want %+v", got, total, c)
			}
			if total.Streams != 6 || total.Shards != 10 || total.States["running"] != 8 || total.States["stopped"] != 1 || total.States["waiting"] != 1 {
				t.Errorf("the totals are not about all: %+v", total)
			}
		})
	}
	if s := d.State.Streams; s[0].Name != "Sa" || s[0].Summary != nil {
		t.Error("what is listed changes the daemon")
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
