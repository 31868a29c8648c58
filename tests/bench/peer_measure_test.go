package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

// peerWithin is within what time a peer has to go on: a virtual machine takes its time to start.
const peerWithin = 3 * time.Minute

// peerBacklog measures from the start of the process until the bus holds a message for each row.
func (b *peerBench) peerBacklog(p *peer, one bus, table string, add func(item, metric string, value float64)) {
	b.t.Helper()
	rows := b.plan.rows
	e, end := b.newErrand(p, one, table)
	defer end()
	holder := p.holder(e)
	process := p.start(b, e)
	defer process.end()
	first, moved := time.Time{}, time.Now()
	before, last := int64(0), int64(0)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last < int64(rows) {
		n := one.count(b.t, holder)
		if n > last {
			moved, last = time.Now(), n
		}
		// A tenth is published: what starts has started.
		if first.IsZero() && n >= int64(rows/10) {
			first, before = time.Now(), n
		}
		if time.Since(moved) > peerWithin {
			b.t.Fatalf("%s: %d messages of %d rows, and no more for %s", p.name, n, rows, peerWithin)
		}
		process.alive()
		b.screen.far(p.name, n, int64(rows))
		<-tick.C
	}
	seconds := time.Since(process.began).Seconds()
	if last > int64(rows) {
		b.t.Fatalf("%s: %d messages of %d rows", p.name, last, rows)
	}
	cpu, peak := process.spent()/float64(rows)*1e6, process.memory.peak()
	add(report.PeerBacklog, report.Seconds, seconds)
	add(report.PeerBacklog, report.CPU, cpu)
	add(report.PeerBacklog, report.RssAnon, peak)
	size := float64(one.bytes(b.t, holder)) / float64(rows)
	add(report.PeerBacklog, report.BytesOnBus, size)
	if last > before {
		add(report.PeerBacklog, report.SteadyRate, float64(last-before)/moved.Sub(first).Seconds())
	}
	b.screen.say("%s: %.2f s, %.2f CPU-seconds a million, %.0f MiB, %.0f bytes a row", p.name, seconds, cpu, peak, size)
}

// peerFirst measures from the start of the process until the first message is there.
func (b *peerBench) peerFirst(p *peer, one bus, add func(item, metric string, value float64)) {
	b.t.Helper()
	e, end := b.newErrand(p, one, "first")
	defer end()
	process := p.start(b, e)
	defer process.end()
	eventually(b.t, peerWithin, p.name+" publishes the first row", func() bool {
		process.alive()
		return one.count(b.t, p.holder(e)) > 0
	})
	add(report.PeerFirst, report.Seconds, time.Since(process.began).Seconds())
}

// peerSteady measures from commit to consumer at a thousand rows a second, and what that costs.
func (b *peerBench) peerSteady(p *peer, one bus, add func(item, metric string, value float64)) {
	b.t.Helper()
	run := b.follow(p, one)
	defer run.end()
	w := b.newWriter(run.table, 1000)
	w.insert(b.t.Context(), 1)
	run.first()
	w.write(b.t.Context(), b.plan.steadyWarm)
	began, cpu := time.Now(), run.process.spent()
	before := len(w.commits)
	w.write(b.t.Context(), b.plan.steadyFor)
	// At both ends of that time some rows are on their way: what comes behind it is not counted.
	took := time.Since(began)
	cpu = run.process.spent() - cpu
	eventually(b.t, peerWithin, fmt.Sprintf("all %d rows have arrived", len(w.commits)), func() bool { return run.arrivals.count() >= len(w.commits) })
	rss, err := testenv.RSSAnon(run.process.cmd.Process.Pid)
	if err != nil {
		b.t.Fatal(err)
	}
	delays := run.arrivals.delays(w.commits, began)
	add(report.PeerSteady, report.P50, report.Percentile(delays, 50))
	add(report.PeerSteady, report.P99, report.Percentile(delays, 99))
	add(report.PeerSteady, report.CPUShare, cpu/took.Seconds()*100)
	add(report.PeerSteady, report.RssAnon, float64(rss)/(1<<20))
	add(report.PeerSteady, report.Reached, float64(len(w.commits)-before)/took.Seconds())
	b.screen.say("%s: p50 %.1f ms, p99 %.1f ms, %.0f %% of a core", p.name, report.Percentile(delays, 50), report.Percentile(delays, 99), cpu/took.Seconds()*100)
}

// following is a peer, or the poller, that brings the rows of an empty table to a consumer.
type following struct {
	b        *bench
	table    string
	name     string
	arrivals *arrivals
	// process is nil for the poller.
	process *process
	end     func()
}

// follow starts a peer, or the poller for nil, on a table of its own.
func (b *peerBench) follow(p *peer, one bus) *following {
	b.t.Helper()
	table := strings.ReplaceAll(newTarget("table"), "-", "_")
	b.db.create(b.t, table)
	if p == nil {
		poller, stop := startPoller(b.t, b.db, table)
		return &following{b: b.bench, table: table, name: pollerName, arrivals: poller.arrivals, end: func() { stop(); b.db.drop(b.t, table) }}
	}
	e, drop := b.newErrand(p, one, table)
	f := &following{b: b.bench, table: table, name: p.name, arrivals: newArrivals()}
	stop := one.follow(b.t, p.holder(e), f.arrivals.add)
	f.process = p.start(b, e)
	f.end = func() { f.process.end(); stop(); drop(); b.db.drop(b.t, table) }
	return f
}

// first waits until a first row has arrived.
func (f *following) first() {
	f.b.t.Helper()
	eventually(f.b.t, peerWithin, f.name+" has published a first row", func() bool {
		if f.process != nil {
			f.process.alive()
		}
		return f.arrivals.count() > 0
	})
}

// lateRow is a row that was committed in a transaction of its own.
type lateRow struct {
	id        uint64
	committed time.Time
}

// peerLate measures what becomes of rows that are committed behind higher ids: of rows of long
// transactions beside a steady writer. p is nil for the poller.
func (b *peerBench) peerLate(p *peer, one bus, add func(item, metric string, value float64)) {
	b.t.Helper()
	run := b.follow(p, one)
	defer run.end()
	rows := b.overlap(run, b.plan.lateFor)
	late := lateOf(rows)
	// What has not arrived long after the last one does not come.
	count, moved := 0, time.Now()
	for tick := time.NewTicker(50 * time.Millisecond); run.arrivals.count() < len(rows) && time.Since(moved) < lostAfter; <-tick.C {
		if n := run.arrivals.count(); n > count {
			count, moved = n, time.Now()
		}
	}
	lost, delays := 0, []float64(nil)
	run.arrivals.mu.Lock()
	for _, r := range late {
		if at, ok := run.arrivals.first[r.id]; ok {
			delays = append(delays, max(0, float64(at.Sub(r.committed).Microseconds())/1000))
		} else {
			lost++
		}
	}
	run.arrivals.mu.Unlock()
	slices.Sort(delays)
	add(report.PeerLate, report.LateRows, float64(len(late)))
	add(report.PeerLate, report.Lost, float64(lost))
	if len(delays) > 0 {
		add(report.PeerLate, report.P50, report.Percentile(delays, 50))
		add(report.PeerLate, report.P99, report.Percentile(delays, 99))
	}
	b.screen.say("%s: of %d late rows %d are lost", run.name, len(late), lost)
}

// lostAfter is how long nothing has to arrive for the rest to be lost: no peer pauses for longer
// while it has something to publish.
const lostAfter = 10 * time.Second

// overlap has transactions of one row overlap for a while: most are short, two dozen take up to
// three seconds each. It returns all rows.
func (b *peerBench) overlap(run *following, length time.Duration) []lateRow {
	b.t.Helper()
	var mu sync.Mutex
	var rows []lateRow
	n := 0
	insert := func(open time.Duration) error {
		mu.Lock()
		n++
		statement := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", run.table, written, rowsOf(fmt.Sprint(n)))
		mu.Unlock()
		tx, err := b.db.db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		done, err := tx.Exec(statement)
		if err != nil {
			return err
		}
		id, err := done.LastInsertId()
		if err != nil {
			return err
		}
		pause(open)
		if err := tx.Commit(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, lateRow{uint64(id), time.Now()})
		return nil
	}
	if err := insert(0); err != nil {
		b.t.Fatal(err)
	}
	run.first()
	var writers sync.WaitGroup
	deadline := time.Now().Add(length)
	write := func(between, open func() time.Duration) {
		writers.Go(func() {
			for time.Now().Before(deadline) {
				if err := insert(open()); err != nil {
					b.t.Error(err)
					return
				}
				pause(between())
			}
		})
	}
	upTo := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return rand.N(d) }
	}
	for range 4 {
		write(upTo(20*time.Millisecond), func() time.Duration { return 0 })
	}
	for range 24 {
		write(upTo(time.Millisecond), upTo(3*time.Second))
	}
	writers.Wait()
	return rows
}

// pause lets a transaction stay open, or a writer rest.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// lateOf returns the rows that were committed when a higher id had been committed.
func lateOf(rows []lateRow) (late []lateRow) {
	slices.SortFunc(rows, func(a, b lateRow) int { return cmp.Compare(b.id, a.id) })
	var earliest time.Time
	for _, r := range rows {
		if !earliest.IsZero() && earliest.Before(r.committed) {
			late = append(late, r)
		}
		if earliest.IsZero() || r.committed.Before(earliest) {
			earliest = r.committed
		}
	}
	return late
}
