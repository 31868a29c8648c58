package bench

import (
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/world"
)

// writer commits rows at a steady rate to one table, or to several in turn: those that are due in
// one transaction, a hundred times a second.
type writer struct {
	*receipts
	db     *sql.DB
	tables []string
	rate   int
	// commits are when the server has answered to the commit of each row, from number 0 on.
	commits    []time.Time
	statements int
}

func (r *rig) newWriter(rate int, tables ...string) *writer {
	return &writer{receipts: newReceipts(), db: r.DB, tables: tables, rate: rate}
}

func (w *writer) commit(t testing.TB, n int) {
	t.Helper()
	tx, from, several := must.Get(w.db.BeginTx(t.Context(), nil))(t), len(w.commits), min(n, len(w.tables))
	for i := range several {
		var rows []string
		for k := i; k < n; k += len(w.tables) {
			rows = append(rows, "("+rowOf(fmt.Sprint(from+k))+")")
		}
		table := w.tables[(from+i)%len(w.tables)]
		must.Get(tx.Exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", table, wide.written, strings.Join(rows, ", "))))(t)
	}
	must.OK(t, tx.Commit())
	w.statements += several + 2
	w.commits = append(w.commits, slices.Repeat([]time.Time{time.Now()}, n)...)
}

// write commits the rows that are due, and one at least, and returns how many came a second.
func (w *writer) write(t testing.TB, length time.Duration) (reached float64) {
	t.Helper()
	began, before := time.Now(), len(w.commits)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		if due := before + 1 + int(passed.Seconds()*float64(w.rate)); due > len(w.commits) {
			w.commit(t, due-len(w.commits))
		}
		<-tick.C
	}
	return float64(len(w.commits)-before) / time.Since(began).Seconds()
}

// delays waits until all rows have arrived, and returns how long after its commit each row did that
// was committed since then, ascending and in ms. A row is visible a little before the writer hears
// of it, so there may be 0.
func (w *writer) delays(t testing.TB, since time.Time) (delays []float64) {
	t.Helper()
	eventually(t, peerWithin, fmt.Sprintf("all %d rows have arrived", len(w.commits)), func() bool { return w.count() >= len(w.commits) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, committed := range w.commits {
		if committed.After(since) {
			delays = append(delays, milliseconds(w.first[revision(i)].Sub(committed)))
		}
	}
	slices.Sort(delays)
	return delays
}

func milliseconds(d time.Duration) float64 { return max(0, float64(d.Microseconds())/1000) }

// percentile returns the smallest of ascending values that so many percent of them do not exceed
// (nearest rank), 0 of none.
func percentile(ascending []float64, percent float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	// The product of 99.9 and 1000 is a little more than 99900.
	rank := int(math.Ceil(percent*float64(len(ascending))/100 - 1e-9))
	return ascending[max(rank, 1)-1]
}

// receipts are when a consumer has first received the event of each row, by its revision.
type receipts struct {
	mu    sync.Mutex
	first map[string]time.Time
}

func newReceipts() *receipts { return &receipts{first: make(map[string]time.Time)} }

func (a *receipts) add(one receipt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.first[one.revision]; !ok {
		a.first[one.revision] = one.at
	}
}

func (a *receipts) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.first)
}

// pace is one case of the latency: rows written at this rate, a stability window, a poll interval.
type pace struct {
	rate         int
	window, poll time.Duration
}

func (r *rig) latency(t testing.TB, l load, p pace, s size) figures {
	t.Helper()
	table := r.empty(t, r.newName("table"), 1)[0]
	_, target := r.start(t, l, r.path, table, world.Env{"BRIDGE_STABILITY_WINDOW": p.window.String(), "BRIDGE_POLL_INTERVAL": p.poll.String()})
	w := r.newWriter(p.rate, table)
	l.bus.follow(t, target, w.add)
	w.commit(t, 1)
	eventually(t, time.Minute, "the consumer has received a first row", func() bool { return w.count() == 1 })
	w.write(t, s.warm)
	began := time.Now()
	f := figures{"written-rows/s": w.write(t, s.write)}
	delays := w.delays(t, began)
	f["p50-ms"], f["p99-ms"], f["max-ms"] = percentile(delays, 50), percentile(delays, 99), percentile(delays, 100)
	return f
}

// quietTables makes so many tables with one row each, committed an hour ago.
func (r *rig) quietTables(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		if name := fmt.Sprintf("quiet_%d", i); !r.made[name] {
			r.exec(t, "CREATE TABLE %s (%s, UNIQUE KEY entity (data_center, revision))", name, wide.columns)
			r.exec(t, "INSERT INTO %s (%s, gmt_create) SELECT %s, now(3) - interval 1 hour", name, wide.written, rowOf(fmt.Sprint(i)))
			r.made[name] = true
		}
	}
}

// idle measures a program that has nothing to do for so many tables, before and after a restart.
func (r *rig) idle(t testing.TB, tables int, s size) figures {
	t.Helper()
	r.quietTables(t, tables)
	d, _ := r.start(t, load{kind: event.Release, bus: r.buses[len(r.buses)-1]}, r.path, fmt.Sprintf("quiet_{0..%d}", tables-1), nil)
	ready := r.awaitPublished(t, d, tables)
	// A shard that has been quiet for ten seconds is polled half as often.
	world.Pause(s.write)
	f := r.costs(t, d, func() int { world.Pause(s.write + s.warm); return 0 })
	f["ready-s"] = ready
	d.kill()
	d.restart()
	f["again-ready-s"] = r.awaitPublished(t, d, tables)
	return f
}

// reload measures how long the rows of one of so many tables wait, of which the others are quiet,
// at most because the configuration is reloaded.
func (r *rig) reload(t testing.TB, on *bus, tables int, s size) figures {
	t.Helper()
	r.quietTables(t, tables-1)
	table := r.empty(t, r.newName("table"), 1)[0]
	d, target := r.start(t, load{kind: event.Release, bus: on}, r.path, fmt.Sprintf("%s,quiet_{0..%d}", table, tables-2),
		world.Env{"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "10ms"})
	w := r.newWriter(200, table)
	on.follow(t, target, w.add)
	w.commit(t, 1)
	r.awaitPublished(t, d, tables)
	w.write(t, s.warm)
	var waits []float64
	for range 5 {
		began := time.Now()
		asked := make(chan int, 1)
		go func() {
			code, _ := d.Post("/api/v1/reload")
			asked <- code
		}()
		w.write(t, s.warm)
		if code := <-asked; code != http.StatusOK {
			t.Fatalf("a reload is answered %d", code)
		}
		waits = append(waits, percentile(w.delays(t, began), 100))
	}
	slices.Sort(waits)
	return figures{"p50-ms": percentile(waits, 50), "max-ms": percentile(waits, 100)}
}

// awaitPublished waits until all shards have published their row, and returns how long after the
// start the program was ready.
func (r *rig) awaitPublished(t testing.TB, d *daemon, shards int) (ready float64) {
	t.Helper()
	ready = d.awaitReady(t)
	eventually(t, 5*time.Minute, "all shards have published their row", func() bool {
		saved := 0
		for _, s := range d.Shards(streamName) {
			if s.Position > 0 {
				saved++
			}
		}
		return saved == shards
	})
	return ready
}

// costs measures what a program and its database use while something goes on, which returns how
// many statements of others it had.
func (r *rig) costs(t testing.TB, d *daemon, meanwhile func() (statements int)) figures {
	t.Helper()
	database, cpu, questions, began := spent(t, r.Server.Pid()), spent(t, d.pid), r.questions(t), time.Now()
	others := meanwhile()
	passed := time.Since(began).Seconds()
	return figures{
		// The second question is counted, too.
		"statements/s": float64(r.questions(t)-questions-1-int64(others)) / passed,
		"cpu-%":        (spent(t, d.pid) - cpu) / passed * 100, "rss-MiB": d.rss(t),
		"database-cpu-%": (spent(t, r.Server.Pid()) - database) / passed * 100,
	}
}

// busy measures a program whose tables all get ten rows a second, with the default poll.
func (r *rig) busy(t testing.TB, window time.Duration, s size) figures {
	t.Helper()
	const rate = 10
	tables, on := r.empty(t, "busy", s.busy), r.buses[len(r.buses)-1]
	w := r.newWriter(rate*s.busy, tables...)
	w.commit(t, s.busy)
	more := world.Env{"BRIDGE_STABILITY_WINDOW": window.String()}
	d, target := r.start(t, load{kind: event.Release, bus: on}, r.path, fmt.Sprintf("busy_{0..%d}", s.busy-1), more)
	on.follow(t, target, w.add)
	r.awaitPublished(t, d, s.busy)
	w.write(t, s.warm)
	began, reached := time.Now(), 0.0
	f := r.costs(t, d, func() int {
		before := w.statements
		reached = w.write(t, s.write)
		return w.statements - before
	})
	delays := w.delays(t, began)
	f["written-rows/s"], f["p50-ms"], f["p99-ms"] = reached, percentile(delays, 50), percentile(delays, 99)
	return f
}
