package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// newReconcilers makes a reconciler for each of shards, which are those of all streams as newShards
// returns them.
func newReconcilers(cfg *config.Config, p *parts, streams []*appStream, shards []*shard.Shard) []reconcile.Scheduled {
	var all []reconcile.Scheduled
	for _, s := range streams {
		for _, table := range s.Tables {
			owner := shards[len(all)]
			r := newReconciler(cfg, s, table, p, owner)
			db, _ := p.sources.of(table)
			all = append(all, reconcile.Scheduled{Reconciler: r, Interval: s.ReconcileInterval, Source: db.Label(), AtOnce: s.Order() == source.OrderNone, Paused: owner.IsPaused})
		}
	}
	return all
}

func newReconciler(cfg *config.Config, s *appStream, table string, p *parts, owner reconcile.Owner) *reconcile.Reconciler {
	o := reconcile.Options{
		Text:   config.StreamText(s.Name),
		Stream: s.Name, Shard: table, Kind: s.Kind,
		Source:     p.sources.Shard(s.Spec(table)),
		NewEncoder: func() (*event.Encoder, error) { return s.encoder(cfg, table) },
		Store:      p.store,
		Committer:  p.committer,
		Owner:      owner,
		Window:     s.StabilityWindow,
		Zone:       s.TimeZone.Location,
		MaxDeletes: float64(s.ReconcileMaxDeletes) * 100,
		StaleAfter: s.StaleAfter,
		Rate:       s.ReconcileRate,
		Logger:     p.logger,
	}
	if s.view != nil {
		o.View = s.view
	}
	if s.shared() && s.keys != nil {
		o.ReadKeys = s.keys.Read
	}
	return reconcile.New(o)
}

// newReconcileCollector collects the state of the reconciles: by stream, or by shard. Those of the
// tables of a stream follow one another.
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
	t.totals.Added += s.Totals.Added
	t.totals.Modified += s.Totals.Modified
	t.totals.Deleted += s.Totals.Deleted
	t.totals.Missed += s.Totals.Missed
	t.totals.Ended += s.Totals.Ended
	t.totals.Tripped += s.Totals.Tripped
	t.totals.Failed += s.Totals.Failed
}
