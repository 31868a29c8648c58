package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/reconcile"
)

// reconcileCollector collects the state of the reconciles at each scrape.
type reconcileCollector struct{ reconcilers []reconcile.Scheduled }

var _ prometheus.Collector = (*reconcileCollector)(nil)

var (
	reconcileLabels  = []string{"stream", "shard"}
	lastRunDesc      = prometheus.NewDesc("bridge_reconcile_last_run_timestamp_seconds", "When the last reconcile ended, Unix time; 0 before the first one.", reconcileLabels, nil)
	durationDesc     = prometheus.NewDesc("bridge_reconcile_duration_seconds", "How long the last reconcile took that ended; 0 before the first one since the start.", reconcileLabels, nil)
	rowsDesc         = prometheus.NewDesc("bridge_reconcile_rows", "Rows that the reconcile under way, or the last one, has read.", reconcileLabels, nil)
	differencesDesc  = prometheus.NewDesc("bridge_reconcile_differences_total", "Differences that reconcile found and published, by kind.", append(reconcileLabels, "kind"), nil)
	verifiedDesc     = prometheus.NewDesc("bridge_reconcile_verified_through_timestamp_seconds", "Clock of the database up to which all commits are known to be published, Unix time; 0 before the first reconcile.", reconcileLabels, nil)
	guardDesc        = prometheus.NewDesc("bridge_reconcile_guard_tripped", "1 while no delete is published until a person agrees.", reconcileLabels, nil)
	runningDesc      = prometheus.NewDesc("bridge_reconcile_running", "1 while a reconcile is under way.", reconcileLabels, nil)
	runsDesc         = prometheus.NewDesc("bridge_reconcile_runs_total", "Reconciles, dry runs aside, by result.", append(reconcileLabels, "result"), nil)
	intervalDesc     = prometheus.NewDesc("bridge_reconcile_interval_seconds", "Longest time between two reconciles of a table of the stream, as configured.", streamLabel, nil)
	reconcileMetrics = []*prometheus.Desc{lastRunDesc, durationDesc, rowsDesc, differencesDesc, verifiedDesc, guardDesc, runningDesc, runsDesc, intervalDesc}
)

// Describe implements prometheus.Collector.
func (c *reconcileCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range reconcileMetrics {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *reconcileCollector) Collect(out chan<- prometheus.Metric) {
	last := ""
	for _, r := range c.reconcilers {
		s := r.Status()
		// The tables of a stream follow one another and share its settings.
		if s.Stream != last {
			out <- prometheus.MustNewConstMetric(intervalDesc, prometheus.GaugeValue, r.Interval.Seconds(), s.Stream)
			last = s.Stream
		}
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Stream, s.Shard)
		}
		total := func(d *prometheus.Desc, n uint64, label string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), s.Stream, s.Shard, label)
		}
		gauge(lastRunDesc, unix(s.LastEnded))
		gauge(durationDesc, lastTook(s).Seconds())
		gauge(rowsDesc, float64(lastRows(s)))
		gauge(verifiedDesc, unix(s.Verified))
		gauge(guardDesc, oneIf(s.Guard != ""))
		gauge(runningDesc, oneIf(s.Running))
		total(differencesDesc, s.Totals.Added, "added")
		total(differencesDesc, s.Totals.Modified, "modified")
		total(differencesDesc, s.Totals.Deleted, "deleted")
		total(differencesDesc, s.Totals.Missed, "missed")
		total(runsDesc, s.Totals.Ended-s.Totals.Tripped, "ended")
		total(runsDesc, s.Totals.Tripped, "guarded")
		total(runsDesc, s.Totals.Failed, "failed")
	}
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
