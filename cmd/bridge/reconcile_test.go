package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
)

// reconciling is a daemon whose reconciles take a few looks at its status.
type reconciling struct {
	fakeDaemon
	// looks is how many there are to go until the requests are answered.
	looks  int
	report ReconcileReport
	// restarts says that the process is another one by then.
	restarts bool
}

func (d *reconciling) Status() Status {
	r := &ReconcileStatus{Waiting: 1, Running: true, Rows: 7, RowsOf: 14, Percent: 50}
	if d.looks--; d.looks < 0 {
		r = &ReconcileStatus{LastRun: &d.report, LastDryRun: &d.report, Guard: d.report.Guard}
		if d.restarts {
			d.status.Started = d.status.Started.Add(time.Second)
		}
	}
	d.status.Streams = []StreamStatus{
		{Name: "orders", State: pipeline.Running, Shards: []ShardStatus{{Shard: "t_0", Reconcile: r}}},
		{Name: "bills", State: pipeline.Running, Shards: []ShardStatus{{Shard: "b", Reconcile: r}}},
	}
	return d.status
}

// serveDaemon returns the environment in which d is the running bridge.
func serveDaemon(t *testing.T, d daemon) settingsOf {
	t.Helper()
	server := httptest.NewServer(handler(d, prometheus.NewRegistry()))
	t.Cleanup(server.Close)
	return settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(server.URL, "http://")}
}

func newReconciling(report ReconcileReport) *reconciling {
	d := &reconciling{looks: 3, report: report}
	d.status.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return d
}

func TestReconcileByTheRunningBridge(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := begun.Add(1500 * time.Millisecond)
	fine := ReconcileReport{StartedAt: &begun, EndedAt: &ended, Rows: 1000, DifferenceCounts: DifferenceCounts{Added: 1, Modified: 2, Deleted: 3}, Absent: 3}

	t.Run("asks for all streams, waits, and prints the differences", func(t *testing.T) {
		d := newReconciling(fine)
		got := outcome{}.call(serveDaemon(t, d), "reconcile")
		want := "STREAM   SHARD   ROWS   ADDED   MODIFIED   DELETED   MISSED   ABSENT   TOOK\n" +
			"bills    b       1000   1       2          3         0        3        1.5s\n" +
			"orders   t_0     1000   1       2          3         0        3        1.5s\n"
		if got.status != exitFine || got.out != want || got.err != "" {
			t.Errorf("%+v, want\n%s", got, want)
		}
		if asked := fmt.Sprint(d.asked); asked != "[orders/{DryRun:false AllowDeletes:false} bills/{DryRun:false AllowDeletes:false}]" {
			t.Errorf("asked for %s", asked)
		}
	})
	t.Run("asks for the streams named, in the mode wanted", func(t *testing.T) {
		d := newReconciling(fine)
		got := outcome{}.call(serveDaemon(t, d), "reconcile", "bills", "--allow-deletes", "bills")
		if got.status != exitFine || strings.Contains(got.out, "orders") || fmt.Sprint(d.asked) != "[bills/{DryRun:false AllowDeletes:true}]" {
			t.Errorf("asked %v, %+v", d.asked, got)
		}
	})
	t.Run("prints what a dry run found", func(t *testing.T) {
		report := fine
		report.DryRun = true
		report.Differences = []DifferenceStatus{{"deleted", 17, "eu+A-\x1b1"}, {"missed", 18, ""}}
		got := outcome{}.call(serveDaemon(t, newReconciling(report)), "reconcile", "--dry-run", "orders")
		want := "orders t_0: deleted  row 17, entity eu+A- 1\norders t_0: missed   row 18\norders t_0: and 4 more\ndry run: nothing was published\n"
		if got.status != exitFine || !strings.HasSuffix(got.out, want) {
			t.Errorf("%+v, want\n%s", got, want)
		}
	})
	t.Run("prints reports as JSON", func(t *testing.T) {
		got := outcome{}.call(serveDaemon(t, newReconciling(fine)), "reconcile", "--json", "orders")
		var printed struct {
			Good   bool
			Shards []struct {
				Stream, Shard string
				Rows, Deleted uint64
			}
		}
		if err := json.Unmarshal([]byte(got.out), &printed); err != nil || !printed.Good || len(printed.Shards) != 1 ||
			printed.Shards[0].Shard != "t_0" || printed.Shards[0].Rows != 1000 || printed.Shards[0].Deleted != 3 {
			t.Errorf("%+v, %v from %s", printed, err, got.out)
		}
	})
	t.Run("ends with status 1 when deletes are held back", func(t *testing.T) {
		report, why := fine, "too many are gone"
		report.Guard = &why
		got := outcome{}.call(serveDaemon(t, newReconciling(report)), "reconcile", "orders")
		if got.status != exitFailed || !strings.Contains(got.out, "orders t_0: too many are gone\n") || !strings.Contains(got.err, "held back") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("ends with status 1 when a run failed", func(t *testing.T) {
		why := "the table is away"
		got := outcome{}.call(serveDaemon(t, newReconciling(ReconcileReport{StartedAt: &begun, Error: &why})), "reconcile", "orders")
		if got.status != exitFailed || !strings.Contains(got.out, "orders t_0: failed: the table is away\n") || !strings.Contains(got.err, "1 table failed") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("says what the bridge says when it refuses", func(t *testing.T) {
		d := newReconciling(fine)
		d.refuses = errors.New("t_0 is stopped")
		if got := (outcome{}).call(serveDaemon(t, d), "reconcile"); got.status != exitFailed || !strings.Contains(got.err, "bridge: t_0 is stopped") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("does not take a bridge that was restarted for one that has done it", func(t *testing.T) {
		d := newReconciling(fine)
		d.restarts = true
		if got := (outcome{}).call(serveDaemon(t, d), "reconcile"); got.status != exitFailed || !strings.Contains(got.err, "restarted") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("names the streams there are", func(t *testing.T) {
		if got := (outcome{}).call(serveDaemon(t, newReconciling(fine)), "reconcile", "order"); got.status != exitFailed || !strings.Contains(got.err, "there are orders, bills") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("takes no other server for a bridge", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(server.URL, "http://")}, "reconcile")
		if got.status != exitFailed || !strings.Contains(got.err, "is no bridge of this version (status 404)") {
			t.Errorf("%+v", got)
		}
	})
}

func TestReconcileProgressLine(t *testing.T) {
	r := &ReconcileStatus{Rows: 1_200_000, RowsOf: 2_000_000, Percent: 60, RowsPerSecond: 180_000, SecondsLeft: 4.4}
	if got, want := progressLine("orders t_0", r, 0, 1), "orders t_0  60 %, 1200000 of about 2000000 rows, 180000/s, 4s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := progressLine("orders t_0", &ReconcileStatus{}, 3, 64), "orders t_0   0 %, 0 rows, 0/s, 3 of 64 tables done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestModeOfARequest(t *testing.T) {
	d := &fakeDaemon{}
	for _, query := range []string{"", "?dryRun=false", "?dryRun=1&allowDeletes=true"} {
		if status, body := request(t, d, "POST", "/api/v1/streams/orders/reconcile"+query); status != http.StatusAccepted {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	want := "[orders/{DryRun:false AllowDeletes:false} orders/{DryRun:false AllowDeletes:false} orders/{DryRun:true AllowDeletes:true}]"
	if got := fmt.Sprint(d.asked); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	for _, query := range []string{"?dryRun", "?dryRun=true&dryRun=false", "?dry-run=true", "?allowdeletes=true"} {
		if status, body := request(t, d, "POST", "/api/v1/streams/orders/reconcile"+query); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	t.Run("a page of another origin is refused", func(t *testing.T) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/api/v1/streams/orders/reconcile?allowDeletes=true", nil)
		r.Header.Set("Origin", "https://elsewhere.example")
		handler(d, prometheus.NewRegistry()).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || len(d.asked) != 3 {
			t.Errorf("%d %s, asked for %v", w.Code, w.Body, d.asked)
		}
	})
}
