package bench

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
	"bridge/tests/testenv"
)

// idleCosts measures what quiet tables cost, for each number of them.
func (b *bench) idleCosts() {
	b.t.Helper()
	most := slices.Max(b.plan.shards)
	for i := range most {
		b.db.create(b.t, fmt.Sprintf("quiet_%d", i))
		b.db.exec(b.t, fmt.Sprintf("INSERT INTO quiet_%d (%s, gmt_create) SELECT %s, now(3) - interval 1 hour", i, written, rowsOf(fmt.Sprint(i))))
		b.screen.far("making quiet tables", int64(i), int64(most))
	}
	for _, shards := range b.plan.shards {
		b.idle(shards)
	}
	for i := range most {
		b.db.drop(b.t, fmt.Sprintf("quiet_%d", i))
	}
}

// idle measures a program that has nothing to do for so many tables.
func (b *bench) idle(shards int) {
	b.t.Helper()
	one := b.buses[len(b.buses)-1]
	target := newTarget("quiet")
	e := b.streamEnv(event.Release, fmt.Sprintf("quiet_{0..%d}", shards-1), one.open(b.t, target))
	defer one.drop(b.t, target)
	maps.Copy(e, one.env(target))
	d := startDaemon(b.t, b.path, e)
	c := report.Case{Shards: shards}
	b.report.Add(report.Idle, c, report.ToReady, b.ready(d, shards))
	b.quiet(d, shards, func(metric string, value float64) { b.report.Add(report.Idle, c, metric, value) })
	d.end()
	d = d.again()
	defer d.end()
	b.report.Add(report.Idle, c, report.ToReadyAgain, b.ready(d, shards))
	b.quiet(d, shards, func(metric string, value float64) {
		if metric == report.CPUShare {
			b.report.Add(report.Idle, c, report.CPUShareAgain, value)
		}
	})
}

// ready waits until all shards have published their row, and returns how long the start took in
// seconds. What it asks for names each shard: thousands of them are asked for less often.
func (b *bench) ready(d *daemon, shards int) (ready float64) {
	b.t.Helper()
	pause := max(20*time.Millisecond, time.Duration(shards)*50*time.Microsecond)
	eventuallyAt(b.t, pause, 5*time.Minute, "it is ready", func() bool {
		d.alive()
		status, _ := d.call(http.MethodGet, "/readyz")
		ready = time.Since(d.began).Seconds()
		return status == http.StatusOK
	})
	eventuallyAt(b.t, pause, 5*time.Minute, "all shards have published their row", func() bool {
		saved := 0
		for _, s := range d.shards() {
			if s.Position > 0 {
				saved++
			}
		}
		b.screen.far(fmt.Sprintf("starting %d shards", shards), int64(saved), int64(shards))
		return saved == shards
	})
	return ready
}

// quiet measures what shards cost that have nothing to do.
func (b *bench) quiet(d *daemon, shards int, add func(metric string, value float64)) {
	b.t.Helper()
	b.wait(fmt.Sprintf("%d shards become quiet", shards), b.plan.idleWarm)
	database := b.db.spent(b.t)
	cpu, statements, began := d.spent(), b.db.questions(b.t), time.Now()
	b.wait(fmt.Sprintf("%d shards are quiet", shards), b.plan.idleFor)
	passed := time.Since(began).Seconds()
	// The second question is counted, too.
	statements = b.db.questions(b.t) - statements - 1
	cpu = d.spent() - cpu
	database = b.db.spent(b.t) - database
	rss, err := testenv.RSSAnon(d.cmd.Process.Pid)
	if err != nil {
		b.t.Fatal(err)
	}
	add(report.CPUShare, cpu/passed*100)
	add(report.DatabaseCPU, database/passed*100)
	add(report.StatementsA, float64(statements)/passed)
	add(report.RssAnon, float64(rss)/(1<<20))
	scraped := time.Now()
	_, body := d.call(http.MethodGet, "/metrics")
	scrape := time.Since(scraped).Seconds() * 1000
	goroutines, series := metric(body, "go_goroutines"), float64(bytes.Count(body, []byte("\n"))-bytes.Count(body, []byte("# ")))
	add(report.Goroutines, goroutines)
	add(report.Series, series)
	add(report.ScrapeTime, scrape)
	b.screen.say("%d quiet shards: database %.2f %% of a core, %.0f goroutines, %.0f series in %.0f ms", shards, database/passed*100, goroutines, series, scrape)
	b.screen.say("%d quiet shards: %.2f %% of a core, %.1f statements a second, %.1f MiB", shards, cpu/passed*100, float64(statements)/passed, float64(rss)/(1<<20))
}

// wait lets time pass while something is measured.
func (b *bench) wait(what string, length time.Duration) {
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		b.screen.far(what, int64(passed), int64(length))
		<-tick.C
	}
}
