package bench

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
)

// pace is one case of the latency: rows written at this rate, a stability window, a poll interval.
type pace struct {
	rate         int
	window, poll time.Duration
}

// paces are all rates with all windows at one poll interval.
func paces(rates []int, windows []time.Duration, poll time.Duration) []pace {
	var all []pace
	for _, window := range windows {
		for _, rate := range rates {
			all = append(all, pace{rate, window, poll})
		}
	}
	return all
}

// latencies measures from commit to consumer for every kind, bus and pace.
func (b *bench) latencies() {
	b.t.Helper()
	for _, kind := range b.plan.kinds {
		for _, one := range b.buses {
			for _, p := range b.plan.paces {
				b.latency(kind, one, p)
			}
		}
	}
}

// latency measures one case.
func (b *bench) latency(kind event.Kind, one bus, p pace) {
	b.t.Helper()
	delays, reached := b.delays(kind, one, p)
	c := report.Case{Kind: string(kind), Bus: one.name(), Window: windowName(p.window), Poll: p.poll.String(), Rate: p.rate}
	for _, quantile := range []struct {
		metric  string
		percent float64
	}{{report.P50, 50}, {report.P99, 99}, {report.P999, 99.9}, {report.Worst, 100}} {
		if quantile.metric != report.P999 || len(delays) >= report.RowsForP999 {
			b.report.Add(report.Latency, c, quantile.metric, report.Percentile(delays, quantile.percent))
		}
	}
	b.report.Add(report.Latency, c, report.Reached, reached)
	b.screen.say("latency, %s stream to %s, window %s, poll %s, %d rows a second: p50 %.1f ms, p99 %.1f ms of %d rows", kind, one.name(), c.Window, c.Poll, p.rate,
		report.Percentile(delays, 50), report.Percentile(delays, 99), len(delays))
}

// delays runs a writer at its rate, the program and a consumer. It returns from commit to consumer,
// ascending and in ms, and the rate that was reached.
func (b *bench) delays(kind event.Kind, one bus, p pace) (delays []float64, reached float64) {
	b.t.Helper()
	target := newTarget(kind)
	table := strings.ReplaceAll(target, "-", "_")
	b.db.create(b.t, table)
	defer b.db.drop(b.t, table)
	e := b.streamEnv(kind, table, one.open(b.t, target))
	defer one.drop(b.t, target)
	maps.Copy(e, one.env(target))
	e["BRIDGE_STABILITY_WINDOW"], e["BRIDGE_POLL_INTERVAL"] = p.window.String(), p.poll.String()
	arrivals := newArrivals()
	stop := one.follow(b.t, target, arrivals.add)
	defer stop()
	d := startDaemon(b.t, b.path, e)
	defer d.end()
	eventually(b.t, time.Minute, "the shard runs", func() bool {
		shards := d.shards()
		return len(shards) == 1 && shards[0].LastPoll != nil
	})

	w := b.newWriter(table, p.rate)
	w.insert(b.t.Context(), 1)
	eventually(b.t, time.Minute, "the consumer has received a first row", func() bool { return arrivals.count() == 1 })
	began := time.Now()
	w.write(b.t.Context(), b.plan.latencyWarm+b.plan.latencyFor)
	took := time.Since(began)
	if counts := began.Add(b.plan.latencyWarm); !w.commits[len(w.commits)-1].After(counts) {
		// On a machine that was held all the time, this one counts.
		w.insert(b.t.Context(), 1)
	}
	eventually(b.t, time.Minute, fmt.Sprintf("all %d rows have arrived", len(w.commits)), func() bool { return arrivals.count() >= len(w.commits) })
	return arrivals.delays(w.commits, began.Add(b.plan.latencyWarm)), float64(len(w.commits)-1) / took.Seconds()
}

func windowName(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return d.String()
}

// writer commits rows at a steady rate, those that are due in one transaction, a hundred times a
// second.
type writer struct {
	b     *bench
	table string
	rate  int
	exec  func(ctx context.Context, statement string, args ...any) (sql.Result, error)
	// commits are when the server has answered to the commit of each row, by its id less one.
	commits []time.Time
}

func (b *bench) newWriter(table string, rate int) *writer {
	return &writer{b: b, table: table, rate: rate, exec: b.db.db.ExecContext}
}

// write commits rows for a while. What was committed before is no part of what is due.
func (w *writer) write(ctx context.Context, length time.Duration) {
	w.b.t.Helper()
	began, before := time.Now(), len(w.commits)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		if due := before + 1 + int(passed.Seconds()*float64(w.rate)); due > len(w.commits) {
			w.insert(ctx, due-len(w.commits))
			w.b.screen.far("latency", int64(passed), int64(length))
		}
		<-tick.C
	}
}

// insert commits the next n rows.
func (w *writer) insert(ctx context.Context, n int) {
	w.b.t.Helper()
	var statement strings.Builder
	fmt.Fprintf(&statement, "INSERT INTO %s (%s) VALUES ", w.table, written)
	for i := range n {
		if i > 0 {
			statement.WriteString(", ")
		}
		fmt.Fprintf(&statement, "(%s)", rowsOf(fmt.Sprint(len(w.commits)+i+1)))
	}
	done, err := w.exec(ctx, statement.String())
	at := time.Now()
	if err != nil {
		w.b.t.Fatal(err)
	}
	if first, err := done.LastInsertId(); err != nil || first != int64(len(w.commits)+1) {
		w.b.t.Fatalf("the first of the rows has the id %d, want %d: %v", first, len(w.commits)+1, err)
	}
	for range n {
		w.commits = append(w.commits, at)
	}
}

// arrivals are when a consumer has first received the message of each row.
type arrivals struct {
	mu    sync.Mutex
	first map[uint64]time.Time
}

func newArrivals() *arrivals { return &arrivals{first: make(map[uint64]time.Time)} }

func (a *arrivals) add(one arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.first[one.row]; !ok {
		a.first[one.row] = one.at
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.first)
}

// delays returns, ascending and in ms, how long after its commit each row that was committed since
// then has arrived. A row is visible a little before the writer hears of it, so there may be 0.
func (a *arrivals) delays(commits []time.Time, since time.Time) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var delays []float64
	for i, committed := range commits {
		if committed.After(since) {
			delays = append(delays, max(0, float64(a.first[uint64(i+1)].Sub(committed).Microseconds())/1000))
		}
	}
	slices.Sort(delays)
	return delays
}

// TestWriterKeepsItsRateAfterAWarmUp writes as peerSteady does: for a while before the time that
// counts.
func TestWriterKeepsItsRateAfterAWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := writer{b: &bench{t: t, screen: newScreen(io.Discard, time.Now())}, rate: 1000}
		w.exec = func(context.Context, string, ...any) (sql.Result, error) {
			return firstRow(len(w.commits) + 1), nil
		}
		w.insert(t.Context(), 1)
		w.write(t.Context(), 5*time.Second)
		began, before := time.Now(), len(w.commits)
		w.write(t.Context(), 15*time.Second)
		if n := len(w.commits) - before; n < 14_980 || n > 15_001 {
			t.Errorf("%d rows in 15 s, want 1,000 a second", n)
		}
		if idle := w.commits[before].Sub(began); idle > 20*time.Millisecond {
			t.Errorf("the first row after the warm-up came %s later", idle)
		}
	})
}

// firstRow answers an INSERT whose first row has this id.
type firstRow int64

func (f firstRow) LastInsertId() (int64, error) { return int64(f), nil }
func (f firstRow) RowsAffected() (int64, error) { return 1, nil }
