package bench

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

// busyRate is how many rows a second each busy table gets.
const busyRate = 10

// busyCosts measures what many tables cost that all get a few rows, with each window.
func (b *bench) busyCosts() {
	b.t.Helper()
	for _, window := range windows {
		for i := range b.plan.busy {
			b.db.create(b.t, busyTable(i))
		}
		b.busy(window)
		for i := range b.plan.busy {
			b.db.drop(b.t, busyTable(i))
		}
	}
}

func busyTable(i int) string { return fmt.Sprintf("busy_%d", i) }

// busy measures a program whose tables all get rows, with the default poll.
func (b *bench) busy(window time.Duration) {
	b.t.Helper()
	tables := b.plan.busy
	one := b.buses[len(b.buses)-1]
	target := newTarget("busy")
	e := b.streamEnv(event.Release, fmt.Sprintf("busy_{0..%d}", tables-1), one.open(b.t, target))
	defer one.drop(b.t, target)
	maps.Copy(e, one.env(target))
	e["BRIDGE_STABILITY_WINDOW"] = window.String()
	w := busyWriter{b: b, tables: tables, commits: make(map[string]time.Time), first: make(map[string]time.Time)}
	stop := one.follow(b.t, target, w.arrived)
	defer stop()
	w.commit(b.t.Context(), 0, tables)
	d := startDaemon(b.t, b.path, e)
	defer d.end()
	b.ready(d, tables)

	w.write(b.t.Context(), b.plan.idleWarm/3)
	database, cpu, statements, began := b.db.spent(b.t), d.spent(), b.db.questions(b.t)-w.statements, time.Now()
	first := w.next
	w.write(b.t.Context(), b.plan.idleFor)
	passed := time.Since(began).Seconds()
	c := report.Case{Shards: tables, Rate: busyRate, Window: windowName(window)}
	rss, err := testenv.RSSAnon(d.cmd.Process.Pid)
	if err != nil {
		b.t.Fatal(err)
	}
	for metric, value := range map[string]float64{
		report.StatementsA: float64(b.db.questions(b.t)-w.statements-statements-1) / passed, report.CPUShare: (d.spent() - cpu) / passed * 100,
		report.DatabaseCPU: (b.db.spent(b.t) - database) / passed * 100, report.RssAnon: float64(rss) / (1 << 20),
		report.Reached: float64(w.next-first) / passed,
	} {
		b.report.Add(report.Busy, c, metric, value)
	}
	eventually(b.t, time.Minute, "all rows have arrived", w.complete)
	delays := w.delaysSince(began)
	b.report.Add(report.Busy, c, report.P50, report.Percentile(delays, 50))
	b.report.Add(report.Busy, c, report.P99, report.Percentile(delays, 99))
	median := func(metric string) float64 { f, _ := b.report.Get(report.Busy, c, metric); return f.Median }
	b.screen.say("%d tables with %d rows a second each, window %s: %.0f statements a second, %.0f %% of a core, p50 %.0f ms, p99 %.0f ms", tables, busyRate, c.Window,
		median(report.StatementsA), median(report.CPUShare), median(report.P50), median(report.P99))
}

// busyWriter commits rows at a steady rate to many tables in turn.
type busyWriter struct {
	b      *bench
	tables int
	// next is the number of the next row, statements counts what the writer sent.
	next       int
	statements int64

	mu sync.Mutex
	// commits are when the server has answered to the commit of each row, first when its message
	// was first received, by its revision. A row may be received before the writer hears of it.
	commits, first map[string]time.Time
}

// write commits the rows that are due, a hundred times a second, and one at least.
func (w *busyWriter) write(ctx context.Context, length time.Duration) {
	w.b.t.Helper()
	began, first := time.Now(), w.next
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		due := first + int(passed.Seconds()*float64(w.tables*busyRate))
		if n := min(due-w.next, w.tables); n > 0 {
			w.commit(ctx, w.next, n)
			w.b.screen.far("busy tables", int64(passed), int64(length))
		}
		<-tick.C
	}
	if w.next == first {
		w.commit(ctx, w.next, 1)
	}
}

// commit inserts n rows from the given number on in one transaction, each into the next table.
func (w *busyWriter) commit(ctx context.Context, from, n int) {
	w.b.t.Helper()
	err := func() error {
		tx, err := w.b.db.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for i := range n {
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s", busyTable((from+i)%w.tables), written, rowsOf(fmt.Sprint(from+i)))); err != nil {
				return err
			}
		}
		return tx.Commit()
	}()
	if err != nil {
		w.b.t.Fatal(err)
	}
	at := time.Now()
	w.next, w.statements = from+n, w.statements+int64(n)+2
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		sum := md5.Sum([]byte(fmt.Sprint(from + i)))
		w.commits[hex.EncodeToString(sum[:])] = at
	}
}

// arrived takes note of a message.
func (w *busyWriter) arrived(a arrival) {
	var message struct {
		Data struct{ Revision string }
	}
	if err := json.Unmarshal(a.value, &message); err != nil {
		w.b.t.Errorf("%v: %.200s", err, a.value)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.first[message.Data.Revision]; !ok {
		w.first[message.Data.Revision] = a.at
	}
}

// complete reports whether all rows that were committed have arrived.
func (w *busyWriter) complete() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.first) >= len(w.commits)
}

// delaysSince returns, ascending and in ms, the delays of the rows that were committed since then.
func (w *busyWriter) delaysSince(since time.Time) []float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []float64
	for revision, committed := range w.commits {
		if committed.After(since) {
			all = append(all, max(0, float64(w.first[revision].Sub(committed).Microseconds())/1000))
		}
	}
	slices.Sort(all)
	return all
}
