package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

type send func(m metric, v float64, labels ...string)

type collector struct {
	descs   []*prometheus.Desc
	collect func(send)
}

func (c *collector) metric(kind prometheus.ValueType, name, help string, labels ...string) metric {
	desc := prometheus.NewDesc(name, help, labels, nil)
	c.descs = append(c.descs, desc)
	return metric{desc, kind}
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.collect(func(m metric, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	})
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

func newInfoCollector(a *App) prometheus.Collector {
	c := new(collector)
	build := c.metric(gauge, "bridge_build_info", "1; the labels say which version and commit of bridge this is, and which Go built it.", "version", "revision", "goversion")
	delivery := c.metric(gauge, "bridge_delivery_info", "1; the label says how often consumers may see an event.", "delivery")
	gaps := c.metric(gauge, "bridge_gaps_limit_bytes", "Memory that the gaps of a shard may take; the rest is read from the checkpoint when it is needed.")
	c.collect = func(send send) {
		send(build, 1, a.opts.Build.Version, a.opts.Build.Revision, a.opts.Build.Go)
		send(delivery, 1, a.opts.Config.Sink.Delivery())
		send(gaps, float64(ledgerBytes(countTables(a.opts.Config))))
	}
	return c
}

// The shards register the counters.
func registerMetrics(registry prometheus.Registerer, a *App) {
	byShard := a.opts.Config.MetricsByShard
	registry.MustRegister(shard.NewCollector(a.shards, func() (n int64) {
		for _, d := range a.sources.all {
			n += d.limits.InFlight()
		}
		return n
	}, byShard), newReconcileCollector(a.reconcilers, byShard),
		newRecoveryCollector(a.streams, a.recovery), newOutageCollector(a), newInfoCollector(a))
	if a.member != nil {
		registry.MustRegister(newStandbyCollector(a.member, a.recovery))
	}
	if a.copies != nil {
		registry.MustRegister(newCopiesCollector(a.copies))
	}
}

// scrapeTimeout bounds how long a scrape waits for source and bus, which count as away then.
const scrapeTimeout = 3 * time.Second

// It asks source and bus, as readiness does. Sources, standby group and progress have the names of
// the outage log.
func newOutageCollector(a *App) prometheus.Collector {
	c := new(collector)
	up := c.metric(gauge, "bridge_dependency_up", "1 if the dependency can be used, 0 while it is away: the source, the bus, the checkpoint's disk, and where they are used the standby group and the progress on the bus.", "dependency")
	heldUp := c.metric(gauge, "bridge_held_up_by_transaction", "1 while an open transaction of a producer hides the end of a topic.")
	c.collect = func(send send) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), scrapeTimeout, errSlowAnswer)
		defer cancel()
		fromSources, fromBus := a.probe(ctx)
		away := map[string]bool{"bus": fromBus != nil, "checkpoint": slices.ContainsFunc(a.shards, func(sh *shard.Shard) bool {
			s := sh.Status()
			return s.State == shard.Waiting && s.SaveHangs
		})}
		for i, d := range a.sources.all {
			away[d.Label()] = fromSources[i] != nil
		}
		if a.member != nil {
			away[standbyDependency] = false
		}
		if a.copies != nil {
			away[copiesDependency] = false
		}
		for _, fault := range a.faults.Outages() {
			name, _, _ := strings.Cut(fault.Dependency, "/")
			if _, shown := away[name]; shown {
				away[name] = true
			}
		}
		for name, is := range away {
			send(up, oneIf(!is), name)
		}
		send(heldUp, oneIf(errors.Is(fromBus, sink.ErrHeldUp)))
	}
	return c
}

var errSlowAnswer = errors.New("no answer within the time of a scrape")

func newRecoveryCollector(streams []*appStream, recovery *stream.CatchUp) prometheus.Collector {
	c := new(collector)
	caughtUp := c.metric(gauge, "bridge_caught_up", "1 once the stream has read from the bus what the checkpoint lacked, 0 before.", "stream")
	read := c.metric(counter, "bridge_catch_up_messages_total", "Messages of the stream that were read back from the bus.", "stream")
	left := c.metric(gauge, "bridge_catch_up_left", "Offsets that are left to read until the stream has caught up, those of other messages included.", "stream")
	nominated := c.metric(gauge, "bridge_nominated_entities", "Entities that wait until their rows are read in all tables of the stream.", "stream")
	duplicates := c.metric(counter, "bridge_twin_rows_total", "How often a key was found to have two rows.", "stream")
	superseded := c.metric(gauge, "bridge_superseded", "1 once another process publishes the same streams, and this one publishes nothing any more.")
	c.collect = func(send send) {
		progress := recovery.Progress()
		send(superseded, oneIf(progress.Superseded != nil))
		for _, s := range progress.Streams {
			send(caughtUp, oneIf(s.Ready && s.Err == nil), s.Stream)
			send(read, float64(s.Messages), s.Stream)
			send(left, float64(s.Left), s.Stream)
		}
		for _, s := range streams {
			if s.movers != nil {
				send(nominated, float64(s.movers.Waiting()), s.Name)
				send(duplicates, float64(s.movers.Duplicates()), s.Name)
			}
		}
	}
	return c
}

// Those of the tables of a stream follow one another.
func newReconcileCollector(reconcilers []reconcile.Scheduled, byShard bool) prometheus.Collector {
	c, labels := new(collector), shard.SeriesLabels(byShard)
	lastRun := c.metric(gauge, "bridge_reconcile_last_run_timestamp_seconds", "When the last reconcile ended of the table that was compared longest ago, Unix time; 0 before the first one of a table.", labels...)
	duration := c.metric(gauge, "bridge_reconcile_duration_seconds", "How long the last reconcile took that ended, of several tables the longest; 0 before the first one since the start.", labels...)
	rows := c.metric(gauge, "bridge_reconcile_rows", "Rows that the reconcile under way, or the last one, has read; of several tables the sum.", labels...)
	differences := c.metric(counter, "bridge_reconcile_differences_total", "Differences that reconcile found and published, by kind.", append(labels, "kind")...)
	verified := c.metric(gauge, "bridge_reconcile_verified_through_timestamp_seconds", "Clock of the database up to which all commits of all tables that were compared are known to be published, Unix time; 0 before the first reconcile.", labels...)
	guard := c.metric(gauge, "bridge_reconcile_guard_tripped", "Tables of which no delete is published until a person agrees.", labels...)
	running := c.metric(gauge, "bridge_reconcile_running", "Reconciles under way.", labels...)
	runs := c.metric(counter, "bridge_reconcile_runs_total", "Reconciles, dry runs aside, by result.", append(labels, "result")...)
	interval := c.metric(gauge, "bridge_reconcile_interval_seconds", "Longest time between two reconciles of a table of the stream, as configured.", "stream")
	c.collect = func(send send) {
		var t reconcileTotal
		for i, r := range reconcilers {
			s := r.Status()
			t.add(&s)
			ends := i == len(reconcilers)-1 || reconcilers[i+1].Stream() != s.Stream
			if ends {
				// The tables of a stream share its settings.
				send(interval, r.Interval.Seconds(), s.Stream)
			}
			series := []string{s.Stream}
			if byShard {
				series = append(series, s.Shard)
			} else if !ends {
				continue
			}
			send(lastRun, unix(t.lastRun), series...)
			send(duration, t.duration.Seconds(), series...)
			send(rows, float64(t.rows), series...)
			send(verified, unix(t.verified), series...)
			send(guard, t.guarded, series...)
			send(running, t.running, series...)
			send(differences, float64(t.totals.Added), append(series, "added")...)
			send(differences, float64(t.totals.Modified), append(series, "modified")...)
			send(differences, float64(t.totals.Deleted), append(series, "deleted")...)
			send(differences, float64(t.totals.Missed), append(series, "missed")...)
			send(runs, float64(t.totals.Ended-t.totals.Tripped), append(series, "ended")...)
			send(runs, float64(t.totals.Tripped), append(series, "guarded")...)
			send(runs, float64(t.totals.Failed), append(series, "failed")...)
			t = reconcileTotal{}
		}
	}
	return c
}

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
	if t.verified.IsZero() || !s.VerifiedThrough.IsZero() && s.VerifiedThrough.Before(t.verified) {
		t.verified = s.VerifiedThrough.Time
	}
	t.tables++
	if r := s.LastRun; r != nil && !r.EndedAt.IsZero() {
		t.duration = max(t.duration, r.EndedAt.Sub(r.StartedAt.Time))
	}
	t.rows += s.Rows
	t.guarded += oneIf(s.Guard != "")
	t.running += oneIf(s.Running)
	t.totals.Add(s.Totals.Verdict)
	t.totals.Ended += s.Totals.Ended
	t.totals.Tripped += s.Totals.Tripped
	t.totals.Failed += s.Totals.Failed
}

func newCopiesCollector(k *buscopy.Keeper) prometheus.Collector {
	c := new(collector)
	written := c.metric(gauge, "bridge_progress_written_seconds", "When the progress of the stream was last written to the bus, as Unix time; 0 before. It is written when it has changed.", "stream")
	bytes := c.metric(gauge, "bridge_progress_bytes", "Size of the progress of the stream as it was last written to the bus.", "stream")
	c.collect = func(send send) {
		for _, s := range k.Status() {
			send(written, unix(s.WrittenAt.Time), s.Stream)
			send(bytes, float64(s.Bytes), s.Stream)
		}
	}
	return c
}

func newStandbyCollector(member *standby.Member, recovery *stream.CatchUp) prometheus.Collector {
	c := new(collector)
	works := c.metric(gauge, "bridge_standby_working", "1 if this process is the one of its standby group that works, 0 if it waits.", "group")
	ready := c.metric(gauge, "bridge_standby_ready", "1 if this process works, or has read the bus and has the configuration of the one that works, so that it could take over.", "group")
	since := c.metric(gauge, "bridge_standby_working_since_seconds", "Since when the process of the group that works does so, as Unix time; 0 while none is known.", "group")
	differing := c.metric(gauge, "bridge_standby_differing", "How many variables differ from those of the process that works.", "group")
	c.collect = func(send send) {
		s := member.Status()
		send(works, oneIf(s.Works), s.Group)
		send(ready, oneIf(s.Works || len(s.Differing) == 0 && followed(recovery.Progress())), s.Group)
		send(since, unix(s.Since.Time), s.Group)
		send(differing, float64(len(s.Differing)), s.Group)
	}
	return c
}
