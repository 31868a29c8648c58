package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// shop is an SQLite database with a table of 60 orders, and the environment of a bridge that publishes it to a server inside the process.
type shop struct {
	t   *testing.T
	db  *sql.DB
	env settingsOf
}

func newShop(t *testing.T) *shop {
	t.Helper()
	dir := t.TempDir()
	// Nobody listens on a port that was just given back.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &shop{t: t, db: db, env: settingsOf{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "shop.db"), "BRIDGE_SINK_URL": "embedded:", "BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(dir, "bridge.db"),
		"BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "capability", "BRIDGE_STREAM_ORDERS_KEY": "name",
		"BRIDGE_HTTP_ADDR": addr, "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms",
	}}
	s.exec("PRAGMA journal_mode=wal")
	s.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, total INT)")
	s.exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) INSERT INTO orders (name, total) SELECT 'o' || i, i FROM n")
	return s
}

func (s *shop) exec(statement string) {
	s.t.Helper()
	if _, err := s.db.Exec(statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// call runs a command and fails the test unless it ends with the status and prints the words, on stdout or stderr.
func (s *shop) call(status int, words, line string) {
	s.t.Helper()
	got := outcome{}.call(s.env, strings.Fields(line)...)
	if got.status != status || !strings.Contains(strings.Join(strings.Fields(got.out+got.err), " "), words) {
		s.t.Errorf("bridge %s: status %d, want %d with %q:\n%s\n%s", line, got.status, status, words, got.out, got.err)
	}
}

func TestReconcileAlone(t *testing.T) {
	t.Run("catches up, publishes the difference once, and ends", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
		s.exec("UPDATE orders SET total = 7 WHERE id = 3")
		s.exec("DELETE FROM orders WHERE id IN (5, 60)")
		s.exec("INSERT INTO orders (id, name, total) VALUES (5, 'old id', 1)")
		s.call(exitFine, "orders orders 59 1 1 2 0 2", "reconcile orders")
		s.call(exitFine, "nothing is wrong", "verify")
		s.call(exitFine, "orders orders 59 0 0 0 0 0", "reconcile")
	})
	t.Run("a dry run publishes and saves nothing, not even what the tail would", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFailed, "there is no checkpoint at", "reconcile --dry-run")
		s.call(exitFine, "", "reconcile")
		s.exec("UPDATE orders SET total = 7 WHERE id = 3")
		s.exec("DELETE FROM orders WHERE id = 60")
		s.exec("INSERT INTO orders (name, total) VALUES ('new', 1)")
		path := strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")
		before := contents(t, path)
		s.call(exitFine, "orders orders 59 0 1 1 0 1", "reconcile --dry-run")
		s.call(exitFine, "modified row 3, entity o3 orders orders: deleted row 60, entity o60 dry run: nothing was published", "reconcile --dry-run")
		if contents(t, path) != before {
			t.Error("the checkpoint has changed")
		}
		s.call(exitFailed, "rows without an event", "verify")
	})
	t.Run("holds deletes back until a person agrees", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "", "reconcile")
		s.exec("DELETE FROM orders WHERE id > 20")
		s.call(exitFailed, "orders orders 20 0 0 0 0 40", "reconcile")
		s.call(exitFailed, "bridge reconcile --allow-deletes orders", "reconcile")
		s.call(exitFine, "deletes held back", "checkpoint show")
		s.call(exitFine, "orders orders 20 0 0 40 0 40", "reconcile --allow-deletes")
		s.call(exitFine, "nothing is wrong", "verify")
		s.env["BRIDGE_RECONCILE_MAX_DELETES"] = "100%"
		s.exec("DELETE FROM orders")
		s.call(exitFine, "orders orders 0 0 0 20 0 20", "reconcile")
	})
	t.Run("goes on with a table that uses its ids again once a person agrees", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "", "reconcile")
		s.exec("DELETE FROM orders")
		s.exec("DELETE FROM sqlite_sequence")
		s.exec("INSERT INTO orders (name, total) VALUES ('o60', 60), ('o59', 1), ('new', 1)")
		s.call(exitFailed, "the table uses ids again", "reconcile")
		s.call(exitFine, "orders orders 3 0 0 58 0 58", "reconcile --allow-deletes")
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("takes a row that has moved to another table of the stream for no delete", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_TABLE"] = "orders,archive"
		s.exec("CREATE TABLE archive (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, total INT)")
		s.call(exitFine, "orders archive 0 0 0 0 0 0", "reconcile")
		s.exec("INSERT INTO archive (name, total) SELECT name, total FROM orders WHERE id IN (7, 8)")
		s.exec("DELETE FROM orders WHERE id IN (7, 8, 9)")
		s.call(exitFine, "orders orders 57 0 0 1 0 1", "reconcile")
		s.call(exitFine, "orders orders 57 0 0 0 0 0", "reconcile")
	})
	t.Run("says where a bridge may be that holds the checkpoint and does not answer", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		inStore(t, strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:"), func(store) {
			for _, line := range []string{"reconcile", "reconcile --dry-run"} {
				s.call(exitFailed, "set BRIDGE_HTTP_ADDR to the address on which it listens", line)
			}
		})
	})
	t.Run("reports a table that cannot be read, after the others", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_TABLE"] = "missing,orders"
		s.call(exitFailed, "orders missing: failed: read missing after 0: missing in the source", "reconcile")
		s.call(exitFailed, "orders orders 60 0 0 0 0 0", "reconcile")
	})
	t.Run("knows its streams and needs a right configuration", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFailed, "no stream is configured as \"order\"", "reconcile order")
		s.env["BRIDGE_POLL_INTERVAL"] = "x"
		s.call(exitUsage, "BRIDGE_POLL_INTERVAL", "reconcile")
	})
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDaemonReconciles holds what HTTP shows of a reconcile against what happens.
func TestDaemonReconciles(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cfg := load(t, s.env)
	registry := prometheus.NewRegistry()
	e, err := openEngine(cfg, registry, openBolt, newLogger(t.Output(), cfg.LogLevel, "text", &redactor{}))
	if err != nil {
		t.Fatal(err)
	}
	scheduler := reconcile.NewScheduler(e.logger, e.reconcilers...)
	registry.MustRegister(&reconcileCollector{e.reconcilers})
	h := &health{streams: cfg.Streams, shards: e.shards, faults: e.faults, source: &inquiry{put: e.source.Ready}, sink: &inquiry{put: e.sink.Ready},
		reconcilers: e.reconcilers, scheduler: scheduler, started: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx, scheduler.Run) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	shard := func() ShardStatus { return h.Status().Streams[0].Shards[0] }
	until := func(what string, is func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); !is(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain until %s: %+v", what, shard())
			}
		}
	}
	run := func(query string) *ReconcileStatus {
		t.Helper()
		if status, body := request(t, h, "POST", "/api/v1/streams/orders/reconcile"+query); status != 202 {
			t.Fatalf("%d %s", status, body)
		}
		until("it is reconciled", func() bool { return shard().Reconcile.Waiting == 0 })
		return shard().Reconcile
	}
	until("the table is published", func() bool { return shard().Position == 60 && shard().State == pipeline.Running })
	if got := shard(); got.Highest != 60 || got.Reconcile.NextAt == nil || got.Reconcile.EndedAt != nil || got.Reconcile.VerifiedThrough != nil {
		t.Errorf("before the first reconcile: %+v, %+v", got, got.Reconcile)
	}

	s.exec("UPDATE orders SET total = 7 WHERE id = 3")
	if r := run("?dryRun=true"); r.LastDryRun == nil || r.LastDryRun.Modified != 1 || len(r.LastDryRun.Differences) != 1 || r.LastRun != nil {
		t.Errorf("after a dry run: %+v", r)
	}
	if r := run(""); r.Modified != 1 || r.Rows != 60 || r.RowsOf != 60 || r.Percent != 100 || r.EndedAt == nil || r.VerifiedThrough == nil || r.Guard != nil {
		t.Errorf("after a run: %+v", r)
	}

	s.exec("DELETE FROM orders WHERE id > 20")
	if r := run(""); r.Guard == nil || r.Deleted != 0 || r.Absent != 40 {
		t.Errorf("after many were deleted: %+v", r)
	}
	reasons := fmt.Sprint(h.Ready(t.Context()))
	if got := h.Status().Streams[0]; got.State != Degraded || got.Shards[0].State != Degraded || !strings.Contains(reasons, "--allow-deletes orders") {
		t.Errorf("%s: %+v", reasons, got)
	}
	for name, want := range map[string]float64{
		"bridge_reconcile_guard_tripped": 1, "bridge_reconcile_rows": 20, "bridge_reconcile_running": 0, "bridge_reconcile_differences_total": 1, "bridge_reconcile_runs_total": 2,
	} {
		if got := gathered(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"bridge_reconcile_last_run_timestamp_seconds", "bridge_reconcile_verified_through_timestamp_seconds"} {
		if got := gathered(t, registry, name); time.Since(time.Unix(int64(got), 0)) > time.Minute {
			t.Errorf("%s is %v", name, got)
		}
	}
	if r := run("?allowDeletes=true"); r.Guard != nil || r.Deleted != 40 || h.Ready(t.Context()) != nil {
		t.Errorf("after a person agreed: %+v, %v", r, h.Ready(t.Context()))
	}

	s.exec("DELETE FROM orders")
	s.exec("DELETE FROM sqlite_sequence")
	s.exec("INSERT INTO orders (name, total) VALUES ('o20', 20)")
	until("the shard stops", func() bool { return shard().State == pipeline.Stopped })
	for _, query := range []string{"", "?dryRun=true", "?dryRun=true&allowDeletes=true"} {
		if status, body := request(t, h, "POST", "/api/v1/streams/orders/reconcile"+query); status != 409 || !strings.Contains(body, "uses ids again") {
			t.Errorf("%s of a shard that is stopped: %d %s", query, status, body)
		}
	}
	if status, _ := request(t, h, "POST", "/api/v1/streams/bills/reconcile"); status != 404 {
		t.Errorf("a stream that is not there: %d", status)
	}
	if r := run("?allowDeletes=true"); r.Deleted != 19 || h.Ready(t.Context()) != nil {
		t.Errorf("after a person agreed to the table: %+v, %v", r, h.Ready(t.Context()))
	}
}

// gathered returns the sum of a metric over all its labels.
func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}
