package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
)

// reconciling is a daemon whose reconciles take a few looks at its status.
type reconciling struct {
	httpapitest.Daemon
	// looks is how many there are to go until the requests are answered.
	looks  int
	report reconcile.Report
	// restarts says that the process is another one by then, stopped why t_0 is stopped.
	restarts bool
	stopped  null.Text
	// moves says that each look finds more rows.
	moves bool
}

func (d *reconciling) Status() httpapi.Status {
	r := &reconcile.Status{Waiting: 1, Running: true, Progress: reconcile.Progress{Result: reconcile.Result{Rows: 7}, RowsOf: 14, Percent: 50}}
	if d.moves {
		r.Rows += uint64(d.looks)
	}
	if d.looks--; d.looks < 0 {
		r = &reconcile.Status{LastRun: &d.report, LastDryRun: &d.report, Guard: d.report.Guard}
		if d.restarts {
			d.State.Started = d.State.Started.Add(time.Second)
		}
	}
	d.State.Streams = []httpapi.StreamStatus{
		{Name: "orders", State: shard.Running, Shards: []shard.Status{{Shard: "t_0", Reconcile: r}}},
		{Name: "bills", State: shard.Running, Shards: []shard.Status{{Shard: "b", Reconcile: r}}},
	}
	if d.stopped != "" {
		s := &d.State.Streams[0].Shards[0]
		s.State, s.Reason, s.Reconcile = shard.Stopped, d.stopped, &reconcile.Status{Waiting: 1}
	}
	return d.State
}

// serveDaemon returns the environment in which d is the running bridge.
func serveDaemon(t *testing.T, d httpapi.Daemon) settingsOf {
	t.Helper()
	return settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, d)}
}

func newReconciling(report reconcile.Report) *reconciling {
	d := &reconciling{looks: 1, report: report}
	d.State.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return d
}

func TestReconcileByTheRunningBridge(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := begun.Add(1500 * time.Millisecond)
	fine := reconcile.Report{Result: reconcile.Result{StartedAt: null.At(begun), EndedAt: null.At(ended), Rows: 1000, Verdict: reconcile.Verdict{Added: 1, Modified: 2, Deleted: 3}, Absent: 3}}

	t.Run("asks for all streams, waits, and prints the differences", func(t *testing.T) {
		t.Parallel()
		d := newReconciling(fine)
		got := mustCall(t, serveDaemon(t, d), exitFine, "", "reconcile")
		want := "STREAM   SHARD   ROWS   ADDED   MODIFIED   DELETED   MISSED   ABSENT   TOOK\n" +
			"bills    b       1000   1       2          3         0        3        1.5s\n" +
			"orders   t_0     1000   1       2          3         0        3        1.5s\n"
		if got.out != want || got.err != "" {
			t.Errorf("%+v, want\n%s", got, want)
		}
		if asked := fmt.Sprint(d.Requests); asked != "[orders/{DryRun:false AllowDeletes:false} bills/{DryRun:false AllowDeletes:false}]" {
			t.Errorf("asked for %s", asked)
		}
	})
	t.Run("asks for the streams named, in the mode wanted", func(t *testing.T) {
		t.Parallel()
		d := newReconciling(fine)
		got := mustCall(t, serveDaemon(t, d), exitFine, `"good": true`, "reconcile bills --allow-deletes bills --json")
		if strings.Contains(got.out, "orders") || fmt.Sprint(d.Requests) != "[bills/{DryRun:false AllowDeletes:true}]" {
			t.Errorf("asked %v, %+v", d.Requests, got)
		}
	})
	t.Run("prints what a dry run found", func(t *testing.T) {
		t.Parallel()
		report := fine
		report.DryRun = true
		report.Differences = []reconcile.Difference{{What: "deleted", Row: 17, Entity: "eu+A-\x1b1"}, {What: "missed", Row: 18}}
		mustCall(t, serveDaemon(t, newReconciling(report)), exitFine,
			"orders t_0: deleted row 17, entity eu+A- 1 orders t_0: missed row 18 orders t_0: and 4 more dry run: nothing was published", "reconcile --dry-run orders")
	})
	for name, c := range map[string]struct {
		change   func(d *reconciling)
		line     string
		out, err string
	}{
		"ends with status 1 when deletes are held back": {func(d *reconciling) { d.report.Guard = "too many are gone" }, "reconcile orders", "orders t_0: too many are gone\n", "held back"},
		"ends with status 1 when a run failed": {func(d *reconciling) {
			d.report = reconcile.Report{Result: reconcile.Result{StartedAt: null.At(begun)}, Error: "the table is away"}
		}, "reconcile orders", "orders t_0: failed: the table is away\n", "1 table failed"},
		"waits for no table that is stopped": {func(d *reconciling) { d.stopped = "no grant" }, "reconcile",
			"bills    b       1000   1       2          3         0        3        1.5s\norders   t_0     0      0       0          0         0        0        -\norders t_0: failed: not compared: no grant\n", "1 table failed"},
		"says what the bridge says when it refuses":                          {func(d *reconciling) { d.Refuses = errors.New("t_0 is stopped") }, "reconcile", "", "bridge: t_0 is stopped"},
		"does not take a bridge that was restarted for one that has done it": {func(d *reconciling) { d.restarts = true }, "reconcile", "", "restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newReconciling(fine)
			c.change(d)
			if got := mustCall(t, serveDaemon(t, d), exitFailed, c.err, c.line); !strings.Contains(got.out, c.out) {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("gives up a bridge whose bus is away, and says so", func(t *testing.T) {
		t.Parallel()
		no := false
		d := newReconciling(fine)
		d.looks = 1 << 30
		d.State.Bus = &httpapi.DependencyStatus{Kind: "kafka", Answers: &no, Error: "topic orders does not exist: create it"}
		got := outcome{away: time.Millisecond}.call(serveDaemon(t, d), "reconcile")
		if got.status != exitFailed || !strings.Contains(got.err, "it waits for the bus: topic orders does not exist: create it") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("goes on while rows are compared, and where another source is away", func(t *testing.T) {
		t.Parallel()
		no := false
		away := httpapi.DependencyStatus{Kind: "mysql", Answers: &no, Error: "refused"}
		d := newReconciling(fine)
		d.looks, d.moves, d.State.Bus = 5, true, &away
		if got := (outcome{away: time.Millisecond}).call(serveDaemon(t, d), "reconcile"); got.status != exitFine {
			t.Errorf("%+v", got)
		}
		of := away
		of.Name = "b"
		d = newReconciling(fine)
		d.looks, d.State.Source, d.State.Sources = 5, &away, []httpapi.DependencyStatus{{Kind: "mysql"}, of}
		if got := (outcome{away: time.Millisecond}).call(serveDaemon(t, d), "reconcile"); got.status != exitFine {
			t.Errorf("%+v", got)
		}
		if waits := waitsFor(d.State, "a/t", "b/t"); waits != "the source: refused" {
			t.Errorf("a table of that source waits for %q", waits)
		}
	})
	t.Run("names the streams there are", func(t *testing.T) {
		t.Parallel()
		mustCall(t, serveDaemon(t, newReconciling(fine)), exitUsage, "there are orders, bills", "reconcile order")
	})
	t.Run("takes no other server for a bridge", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		other := settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(server.URL, "http://")}
		mustCall(t, other, exitFailed, "is not a bridge of this version (status 404)", "reconcile")
	})
}

// moving is a bridge inside of which the table busy moves at each look, and locked is never polled.
type moving struct {
	asked
	looks uint64
}

func (m *moving) Working(context.Context) (httpapi.Status, error) {
	now := time.Now()
	m.looks++
	return httpapi.Status{Streams: []httpapi.StreamStatus{{Name: "s", CatchUp: stream.StreamProgress{Ready: true}, Shards: []shard.Status{
		{Shard: "busy", Position: m.looks, Highest: 2000, LastPoll: null.At(now)}, {Shard: "locked", Reason: "no answer"},
	}}}}, nil
}

func TestATableThatStandsStillIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := make(stillTables)
		status, err := awaitTails(t.Context(), new(moving), reconcile.Mode{}, still, nil)
		want := stillTables{{"s", "locked"}: "nothing has moved for 30s: catching up, id 0 of 0: no answer"}
		if err != nil || !maps.Equal(still, want) || status.Streams[0].Shards[0].Position != 2000 {
			t.Errorf("%v, %v, %+v", err, still, status)
		}
		w := newWatch([]string{"s"}, reconcile.Mode{}, still, status)
		done := null.At(time.Now())
		status.Streams[0].Shards[0].Reconcile = &reconcile.Status{LastRun: &reconcile.Report{Result: reconcile.Result{StartedAt: done, EndedAt: done}}}
		if line, _, _ := w.observe(status); line != "" || badOutcomes(w.outcomes()[1:]) == nil || badOutcomes(w.outcomes()[:1]) != nil {
			t.Errorf("%q, %+v", line, w.outcomes())
		}
	})
}

// TestATableThatIsGoneIsNotWaitedFor, whether it is gone before the request or goes behind its run.
func TestATableThatIsGoneIsNotWaitedFor(t *testing.T) {
	done := null.At(time.Now())
	ran := &reconcile.Status{LastRun: &reconcile.Report{Result: reconcile.Result{StartedAt: done, EndedAt: done}}}
	gone := shard.Status{Shard: "gone", State: shard.Gone}
	status := httpapi.Status{Streams: []httpapi.StreamStatus{{Name: "s", CatchUp: stream.StreamProgress{Ready: true}, Shards: []shard.Status{gone}}}}
	stream := &status.Streams[0]
	w := newWatch([]string{"s"}, reconcile.Mode{}, make(stillTables), status)
	if line, _, _ := w.observe(status); w.runs(stream) || line != "" || len(w.outcomes()) != 0 {
		t.Errorf("of a stream without another table: %q, %+v", line, w.outcomes())
	}
	stream.Shards = []shard.Status{{Shard: "goes", Reconcile: ran}, {Shard: "stays", Reconcile: &reconcile.Status{Waiting: 1}}, gone}
	if line, _, _ := w.observe(status); line != "waiting, 1 of 2 tables done" {
		t.Errorf("it says %q", line)
	}
	stream.Shards[0] = shard.Status{Shard: "goes", State: shard.Gone}
	if line, _, _ := w.observe(status); line != "waiting" {
		t.Errorf("it does not wait for the other table: %q", line)
	}
	stream.Shards[1].Reconcile = ran
	if line, _, _ := w.observe(status); line != "" || len(w.outcomes()) != 2 {
		t.Errorf("%q, %+v", line, w.outcomes())
	}
}

// TestOnlyARunAfterTheRequestCounts where a table heals before the first look.
func TestOnlyARunAfterTheRequestCounts(t *testing.T) {
	before := null.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	old := &reconcile.Report{Result: reconcile.Result{StartedAt: before, EndedAt: before}}
	for _, mode := range []reconcile.Mode{{}, {DryRun: true}} {
		one := shard.Status{Shard: "t", State: shard.Stopped, Reconcile: &reconcile.Status{LastRun: old, LastDryRun: old}}
		status := httpapi.Status{Streams: []httpapi.StreamStatus{{Name: "s", Shards: []shard.Status{one}}}}
		for _, asks := range []bool{true, false} {
			w := newWatch([]string{"s"}, mode, make(stillTables), status)
			if !asks && w.runs(&status.Streams[0]) {
				t.Error("a stream whose tables are stopped is asked")
			}
			status.Streams[0].Shards[0].State = shard.Running
			if line, _, _ := w.observe(status); line != "" || badOutcomes(w.outcomes()) == nil {
				t.Errorf("%q, %+v", line, w.outcomes())
			}
			status.Streams[0].Shards[0].State = shard.Stopped
		}
	}
}

func TestReconcileProgressLine(t *testing.T) {
	r := &reconcile.Status{Progress: reconcile.Progress{Result: reconcile.Result{Rows: 1_200_000}, RowsOf: 2_000_000, Percent: 60, RowsPerSecond: 180_000, SecondsLeft: 4.4}}
	if got, want := progressLine("orders t_0", r, 0, 1), "orders t_0  60 %, 1200000 of about 2000000 rows, 180000/s, 4s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := progressLine("orders t_0", &reconcile.Status{}, 3, 64), "orders t_0   0 %, 0 rows, 0/s, 3 of 64 tables done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
