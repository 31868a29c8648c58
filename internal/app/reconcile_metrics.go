package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/shard"
	"bridge/reconcile"
)

// reconcileCollector collects the state of the reconciles at each scrape: by stream, or by shard.
// Those of the tables of a stream follow one another.
type reconcileCollector struct {
	reconcilers []reconcile.Scheduled
	byShard     bool

	lastRun, duration, rows, differences, verified, guard, running, runs, interval *prometheus.Desc
}

func newReconcileCollector(reconcilers []reconcile.Scheduled, byShard bool) *reconcileCollector {
	labels := shard.SeriesLabels(byShard)
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append(labels[:len(labels):len(labels)], more...), nil)
	}
	return &reconcileCollector{
		reconcilers: reconcilers, byShard: byShard,
		lastRun:     desc("bridge_reconcile_last_run_timestamp_seconds", "When the last reconcile ended of the table that was compared longest ago, Unix time; 0 before the first one of a table."),
		duration:    desc("bridge_reconcile_duration_seconds", "How long the last reconcile took that ended, of several tables the longest; 0 before the first one since the start."),
		rows:        desc("bridge_reconcile_rows", "Rows that the reconcile under way, or the last one, has read; of several tables the sum."),
		differences: desc("bridge_reconcile_differences_total", "Differences that reconcile found and published, by kind.", "kind"),
		verified:    desc("bridge_reconcile_verified_through_timestamp_seconds", "Clock of the database up to which all commits of all tables that were compared are known to be published, Unix time; 0 before the first reconcile."),
		guard:       desc("bridge_reconcile_guard_tripped", "Tables of which no delete is published until a person agrees."),
		running:     desc("bridge_reconcile_running", "Reconciles under way."),
		runs:        desc("bridge_reconcile_runs_total", "Reconciles, dry runs aside, by result.", "result"),
		interval:    prometheus.NewDesc("bridge_reconcile_interval_seconds", "Longest time between two reconciles of a table of the stream, as configured.", streamLabel, nil),
	}
}

var _ prometheus.Collector = (*reconcileCollector)(nil)

// Describe implements prometheus.Collector.
func (c *reconcileCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lastRun, c.duration, c.rows, c.differences, c.verified, c.guard, c.running, c.runs, c.interval} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *reconcileCollector) Collect(out chan<- prometheus.Metric) {
	var t reconcileTotal
	for i, r := range c.reconcilers {
		s := r.Status()
		t.add(&s)
		ends := i == len(c.reconcilers)-1 || c.reconcilers[i+1].Stream() != s.Stream
		if ends {
			// The tables of a stream share its settings.
			out <- prometheus.MustNewConstMetric(c.interval, prometheus.GaugeValue, r.Interval.Seconds(), s.Stream)
		}
		if c.byShard {
			c.send(out, &t, s.Stream, s.Shard)
		} else if ends {
			c.send(out, &t, s.Stream)
		} else {
			continue
		}
		t = reconcileTotal{}
	}
}

func (c *reconcileCollector) send(out chan<- prometheus.Metric, t *reconcileTotal, labels ...string) {
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, n uint64, label string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(labels[:len(labels):len(labels)], label)...)
	}
	gauge(c.lastRun, unix(t.lastRun))
	gauge(c.duration, t.duration.Seconds())
	gauge(c.rows, float64(t.rows))
	gauge(c.verified, unix(t.verified))
	gauge(c.guard, t.guarded)
	gauge(c.running, t.running)
	total(c.differences, t.totals.Added, "added")
	total(c.differences, t.totals.Modified, "modified")
	total(c.differences, t.totals.Deleted, "deleted")
	total(c.differences, t.totals.Missed, "missed")
	total(c.runs, t.totals.Ended-t.totals.Tripped, "ended")
	total(c.runs, t.totals.Tripped, "guarded")
	total(c.runs, t.totals.Failed, "failed")
}

// reconcileTotal is what the reconciles of one table, or of the tables of a stream, show.
type reconcileTotal struct {
	tables int
	// lastRun is the earliest, zero where a table has none; verified the earliest that there is.
	lastRun, verified time.Time
	duration          time.Duration
	rows              uint64
	guarded, running  float64
	totals            reconcile.Totals
}

func (t *reconcileTotal) add(s *reconcile.Status) {
	if t.tables == 0 || s.LastEnded.Before(t.lastRun) {
		t.lastRun = s.LastEnded
	}
	if t.verified.IsZero() || !s.Verified.IsZero() && s.Verified.Before(t.verified) {
		t.verified = s.Verified
	}
	t.tables++
	t.duration = max(t.duration, lastTook(*s))
	t.rows += lastRows(*s)
	t.guarded += oneIf(s.Guard != "")
	t.running += oneIf(s.Running)
	t.totals.Added += s.Totals.Added
	t.totals.Modified += s.Totals.Modified
	t.totals.Deleted += s.Totals.Deleted
	t.totals.Missed += s.Totals.Missed
	t.totals.Ended += s.Totals.Ended
	t.totals.Tripped += s.Totals.Tripped
	t.totals.Failed += s.Totals.Failed
}

// lastTook returns how long the last run took, 0 if it was cut short.
func lastTook(s reconcile.Status) time.Duration {
	if s.Last.Ended.IsZero() {
		return 0
	}
	return s.Last.Ended.Sub(s.Last.Started)
}

func lastRows(s reconcile.Status) uint64 {
	if s.Running {
		return s.Progress.Scanned
	}
	return s.Last.Scanned
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
