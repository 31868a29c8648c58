package shard

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector shows the shards' statuses and the bytes in flight at each scrape: by stream, or by
// shard.
type Collector struct {
	shards  []*Shard
	limits  *Limits
	byShard bool

	lag, position, gaps, unpolled, ids, flight, gapAge, memory, poll, state, bytes *prometheus.Desc
}

// NewCollector returns a collector to register with a prometheus.Registerer. The shards of a stream
// follow one another.
func NewCollector(shards []*Shard, limits *Limits, byShard bool) *Collector {
	labels := SeriesLabels(byShard)
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append(labels[:len(labels):len(labels)], more...), nil)
	}
	return &Collector{
		shards: shards, limits: limits, byShard: byShard,
		lag:      desc("bridge_lag_seconds", "Age of the oldest committed row that is not published, of the table that lags most; 0 when drained, NaN while no table of the series can be read."),
		position: desc("bridge_position", "Id up to which a table is published and saved; of several tables the sum."),
		gaps:     desc("bridge_open_gaps", "Ranges of ids below the position that have not been seen; of several tables the sum."),
		unpolled: desc("bridge_unpolled_ids", "Ids below the position that were not published and are no longer polled: reconcile compares them with the table. Of several tables the sum."),
		ids:      desc("bridge_open_ids", "Ids below the position that have not been seen: hot ones are looked for at every poll, cold ones every minute. Of several tables the sum.", "temperature"),
		flight:   desc("bridge_ids_in_flight", "Ids that an open transaction has inserted; of several tables the sum."),
		gapAge:   desc("bridge_oldest_gap_seconds", "Age of the oldest gap of all tables; 0 when there is none."),
		memory:   desc("bridge_gaps_bytes", "Memory that the gaps of a table take; of several tables the most."),
		poll:     desc("bridge_last_successful_poll_timestamp_seconds", "When the source last answered for the table that was read longest ago, Unix time; 0 before the first time. Stopped tables are left out, NaN where there is no other."),
		state:    desc("bridge_shard_state", "Tables in the state.", "state"),
		bytes:    prometheus.NewDesc("bridge_inflight_bytes", "Bytes reserved by batches that are read, wait or are in flight.", nil, nil),
	}
}

// SeriesLabels returns the labels of a series of one shard, or of all shards of a stream.
func SeriesLabels(byShard bool) []string {
	if byShard {
		return []string{"stream", "shard"}
	}
	return []string{"stream"}
}

var _ prometheus.Collector = (*Collector)(nil)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lag, c.position, c.gaps, c.ids, c.unpolled, c.flight, c.gapAge, c.memory, c.poll, c.state, c.bytes} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	t := newTotal()
	for i, shard := range c.shards {
		s := shard.Status()
		t.add(&s)
		if c.byShard {
			c.send(out, &t, s.Stream, s.Shard)
			t = newTotal()
		} else if i == len(c.shards)-1 || c.shards[i+1].opts.Stream != s.Stream {
			c.send(out, &t, s.Stream)
			t = newTotal()
		}
	}
	out <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(c.limits.InFlight()))
}

func (c *Collector) send(out chan<- prometheus.Metric, t *total, labels ...string) {
	gauge := func(d *prometheus.Desc, v float64, more ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(labels[:len(labels):len(labels)], more...)...)
	}
	gauge(c.lag, t.lag)
	gauge(c.position, t.position)
	gauge(c.gaps, t.gaps)
	gauge(c.ids, t.hot, "hot")
	gauge(c.ids, t.cold, "cold")
	gauge(c.unpolled, t.unpolled)
	gauge(c.flight, t.flight)
	gauge(c.gapAge, t.gapAge)
	gauge(c.memory, t.memory)
	for _, state := range states {
		gauge(c.state, float64(t.states[state]), string(state))
	}
	gauge(c.poll, t.poll)
}

// total is what one shard, or the shards of a stream, show. No comparison with NaN holds, so that
// an alert does not fire for what is not known, and the series stays.
type total struct {
	// lag is the highest one that is known, poll the earliest of the shards that are not stopped:
	// NaN where there is none.
	lag, poll                                   float64
	position, gaps, hot, cold, unpolled, flight float64
	gapAge, memory                              float64
	states                                      map[State]int
}

func newTotal() total {
	return total{lag: math.NaN(), poll: math.NaN(), states: make(map[State]int, len(states))}
}

func (t *total) add(s *Status) {
	if lag := s.Lag.Seconds(); s.LagKnown && !(lag <= t.lag) {
		t.lag = lag
	}
	poll := 0.0
	if !s.LastPoll.IsZero() {
		poll = float64(s.LastPoll.UnixMilli()) / 1000
	}
	if s.State != Stopped && !(poll >= t.poll) {
		t.poll = poll
	}
	t.position += float64(s.Position)
	t.gaps += float64(s.OpenGaps)
	t.hot += float64(s.Gaps.Hot)
	t.cold += float64(s.Gaps.Cold)
	t.unpolled += float64(s.Gaps.Unpolled)
	t.flight += float64(s.Gaps.InFlight)
	t.gapAge = max(t.gapAge, s.Gaps.OldestAge.Seconds())
	t.memory = max(t.memory, float64(s.Gaps.Bytes))
	t.states[s.State]++
}
