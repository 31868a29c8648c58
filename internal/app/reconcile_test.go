package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/must"
)

// TestDaemonReconciles holds what HTTP shows of a reconcile against what happens.
func TestDaemonReconciles(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	a := must.Get(Open(t.Context(), Options{Config: load(t, s.Env), Logger: textLogger(t.Output())}))(t)
	h, registry := a.Daemon(), a.Metrics()
	defer start(t, a)()
	now := func() shard.Status { return h.Status().Streams[0].Shards[0] }
	await := func(what string, is func() bool) {
		t.Helper()
		until(t, what, func() any { return now() }, is)
	}
	run := func(query string) *reconcile.Status {
		t.Helper()
		if status, body := httpapitest.Request(t, h, "POST", "/api/v1/streams/orders/reconcile"+query); status != 202 {
			t.Fatalf("%d %s", status, body)
		}
		await("it is reconciled", func() bool { return now().Reconcile.Waiting == 0 })
		return now().Reconcile
	}
	await("the table is published", func() bool { return now().Position == 60 && now().State == shard.Running })
	if got := now(); got.Highest != 60 || got.Reconcile.NextAt.IsZero() || !got.Reconcile.EndedAt.IsZero() || !got.Reconcile.VerifiedThrough.IsZero() {
		t.Errorf("before the first reconcile: %+v, %+v", got, got.Reconcile)
	}

	s.Exec(t, "UPDATE orders SET total = 7 WHERE id = 3")
	if r := run("?dryRun=true"); r.LastDryRun == nil || r.LastDryRun.Modified != 1 || len(r.LastDryRun.Differences) != 1 || r.LastRun != nil {
		t.Errorf("after a dry run: %+v", r)
	}
	if r := run(""); r.Modified != 1 || r.Rows != 60 || r.RowsOf != 60 || r.Percent != 100 || r.EndedAt.IsZero() || r.VerifiedThrough.IsZero() || r.Guard != "" {
		t.Errorf("after a run: %+v", r)
	}

	s.Exec(t, "DELETE FROM orders WHERE id > 20")
	if r := run(""); r.Guard == "" || r.Deleted != 0 || r.Absent != 40 {
		t.Errorf("after many were deleted: %+v", r)
	}
	reasons := fmt.Sprint(h.Ready(t.Context()))
	if got := h.Status().Streams[0]; got.State != shard.Degraded || got.Shards[0].State != shard.Degraded || !strings.Contains(reasons, "--allow-deletes orders") {
		t.Errorf("%s: %+v", reasons, got)
	}
	sum := func(name string) (sum float64) {
		for metric, value := range gathered(t, registry) {
			if strings.HasPrefix(metric, name+" ") {
				sum += value
			}
		}
		return sum
	}
	for name, want := range map[string]float64{
		"bridge_reconcile_guard_tripped": 1, "bridge_reconcile_rows": 20, "bridge_reconcile_running": 0, "bridge_reconcile_differences_total": 1, "bridge_reconcile_runs_total": 2,
	} {
		if got := sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"bridge_reconcile_last_run_timestamp_seconds", "bridge_reconcile_verified_through_timestamp_seconds"} {
		if got := sum(name); time.Since(time.Unix(int64(got), 0)) > time.Minute {
			t.Errorf("%s is %v", name, got)
		}
	}
	if r := run("?allowDeletes=true"); r.Guard != "" || r.Deleted != 40 || h.Ready(t.Context()) != nil {
		t.Errorf("after a person agreed: %+v, %v", r, h.Ready(t.Context()))
	}
	if status, _ := httpapitest.Request(t, h, "POST", "/api/v1/streams/bills/reconcile"); status != 404 {
		t.Errorf("a stream that is not there: %d", status)
	}
	s.Exec(t, "DELETE FROM orders")
	s.Exec(t, "DELETE FROM sqlite_sequence")
	s.Exec(t, "INSERT INTO orders (name, total) VALUES ('o20', 20)")
	await("the shard stops", func() bool { return now().State == shard.Stopped })
	for _, query := range []string{"", "?dryRun=true", "?dryRun=true&allowDeletes=true"} {
		if status, body := httpapitest.Request(t, h, "POST", "/api/v1/streams/orders/reconcile"+query); status != 409 || !strings.Contains(body, "uses ids again") {
			t.Errorf("%s of a shard that is stopped: %d %s", query, status, body)
		}
	}
	// The tail publishes that the one which had the id of the row is gone, unless the reconcile is
	// there first.
	if r := run("?allowDeletes=true"); r.Deleted < 18 || r.Deleted > 19 || h.Ready(t.Context()) != nil {
		t.Errorf("after a person agreed to the table: %+v, %v", r, h.Ready(t.Context()))
	}
	s.Exec(t, "DROP TABLE orders")
	await("the shard stops", func() bool { return now().State == shard.Stopped })
	if status, body := httpapitest.Request(t, h, "POST", "/api/v1/streams/orders/reconcile"); status != 409 || !strings.Contains(body, "no table") {
		t.Errorf("of a table that is gone: %d %s", status, body)
	}
}

// gathered returns the values of gauges and counters, by name and the values of their labels.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families := must.Get(from.Gather())(t)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}
