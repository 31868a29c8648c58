package shard

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/null"
	"example.org/bridge/sink"
)

// Metrics counts what the shards of a process do. It is safe for concurrent use.
type Metrics struct {
	rows        *prometheus.CounterVec
	events      *prometheus.CounterVec
	publish     *prometheus.HistogramVec
	rejected    *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	duplicates  *prometheus.CounterVec
	badValues   *prometheus.CounterVec
	retries     *prometheus.CounterVec
	// schemaBreaks counts breaking changes of the events.
	schemaBreaks *prometheus.CounterVec
	late         *prometheus.CounterVec
	givenUp      *prometheus.CounterVec
	limits       *prometheus.CounterVec
	queries      *prometheus.HistogramVec
	saves        *prometheus.HistogramVec
	// byShard has retries tell the shards of a stream apart.
	byShard bool
}

// NewMetrics registers the metrics with registry. Retries for a shard are counted by shard, or by
// stream.
func NewMetrics(registry prometheus.Registerer, byShard bool) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	// By stream, not by shard: a thousand shards would have tens of thousands of buckets.
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(h)
		return h
	}
	return &Metrics{
		byShard: byShard,
		rows:    counter("bridge_records_total", "Rows published and acknowledged.", "stream"),
		events:  counter("bridge_events_total", "Events published and acknowledged, by type.", "stream", "type"),
		publish: histogram("bridge_publish_seconds", "Time from handing a batch to the bus until all of it was acknowledged.",
			prometheus.ExponentialBuckets(0.0005, 2, 18), "stream"),
		queries: histogram("bridge_source_query_seconds", "Time of the reads of the tables, failed ones too, by what they ask for.",
			prometheus.ExponentialBuckets(0.0005, 3, 12), "stream", "query"),
		saves: histogram("bridge_checkpoint_save_seconds", "Time until the checkpoint had taken an acknowledged batch, or had failed.",
			prometheus.ExponentialBuckets(0.0005, 3, 12), "stream"),
		rejected:     counter("bridge_rejected_total", "Messages that the bus refused for good.", "stream"),
		deadLetters:  counter("bridge_dead_letters_total", "Rejected messages put aside at the dead-letter destination.", "stream"),
		duplicates:   counter("bridge_duplicate_acks_total", "Messages that the bus dropped as repeats though they were sent for the first time since the start.", "stream"),
		badValues:    counter("bridge_bad_values_total", "Values published as null because an event cannot hold them.", "stream"),
		schemaBreaks: counter("bridge_breaking_schema_changes_total", "Tables whose events lost a member or gave it another type under the same EVENT_VERSION.", "stream"),
		late:         counter("bridge_late_records_total", "Rows that appeared inside a gap and were taken care of: published, or no news.", "stream"),
		givenUp:      counter("bridge_ids_given_up_total", "Ids that were not seen until GAP_TTL and are no longer polled: reconcile publishes a row that appears there.", "stream", "reason"),
		limits:       counter("bridge_limit_wait_seconds_total", "Time that tables have waited for a limit of the configuration: rate, or connections.", "stream", "limit"),
		retries:      counter("bridge_retries_total", "Attempts that failed and are repeated, by place.", "place"),
	}
}

// show creates every series of a shard and its stream at 0, before anything is counted: an alert on
// an increase does not see the first count of a series that appears with it.
func (m *Metrics) show(stream string, types, dependencies []string) {
	for _, counter := range []*prometheus.CounterVec{m.rows, m.rejected, m.deadLetters, m.duplicates, m.badValues, m.schemaBreaks, m.late} {
		counter.WithLabelValues(stream)
	}
	for _, kind := range types {
		m.events.WithLabelValues(stream, kind)
	}
	m.givenUp.WithLabelValues(stream, reasonTTL)
	for _, limit := range []null.Text{LimitRate, LimitConnections} {
		m.limits.WithLabelValues(stream, string(limit))
	}
	for _, dependency := range dependencies {
		m.retries.WithLabelValues(dependency)
	}
	m.publish.WithLabelValues(stream)
	m.saves.WithLabelValues(stream)
	for _, query := range queries {
		m.queries.WithLabelValues(stream, string(query))
	}
}

func (m *Metrics) limited(stream string, by null.Text, waited time.Duration) {
	m.limits.WithLabelValues(stream, string(by)).Add(max(0, waited.Seconds()))
}

type query string

// The queries that are timed. A read of the head is not: it waits for those of other shards.
const (
	queryPage    query = "page"
	queryRows    query = "rows"
	queryIDs     query = "ids"
	queryChanges query = "changes"
)

var queries = []query{queryPage, queryRows, queryIDs, queryChanges}

func (m *Metrics) queried(stream string, q query, began time.Time) {
	m.queries.WithLabelValues(stream, string(q)).Observe(time.Since(began).Seconds())
}

// Retry counts a failed attempt at place; it is a sink.Fault.
func (m *Metrics) Retry(dependency string, _ error) { m.retries.WithLabelValues(dependency).Inc() }

// outcome counts what became of messages, and returns how many events were acknowledged.
func (m *Metrics) outcome(stream string, messages []sink.Message, o *sink.Outcome) (acked int) {
	// Runs of one type are the rule.
	for start := 0; start < len(o.Status); {
		kind, end := messages[start].Type, start
		run := 0
		for ; end < len(o.Status) && messages[end].Type == kind; end++ {
			if o.Status[end] == sink.Acked && messages[end].Value != nil {
				run++
			}
		}
		if start = end; kind != sink.DeadLetterType {
			m.events.WithLabelValues(stream, kind).Add(float64(run))
			acked += run
		}
	}
	m.rows.WithLabelValues(stream).Add(float64(acked))
	for i := range o.Rejected {
		// A dead letter is tried in several sizes.
		if messages[o.Rejected[i].Index].Type != sink.DeadLetterType {
			m.rejected.WithLabelValues(stream).Inc()
		}
	}
	if o.Duplicates > 0 {
		m.duplicates.WithLabelValues(stream).Add(float64(o.Duplicates))
	}
	return acked
}

// Collector shows the shards' statuses and the bytes in flight at each scrape: by stream, or by
// shard.
type Collector struct {
	shards   []*Shard
	inFlight func() int64
	byShard  bool

	lag, position, gaps, unpolled, ids, flight, gapAge, memory, poll, state, paused, bytes *prometheus.Desc
}

// NewCollector returns a collector to register with a prometheus.Registerer. The shards of a stream
// follow one another. inFlight returns the bytes that all have reserved.
func NewCollector(shards []*Shard, inFlight func() int64, byShard bool) *Collector {
	labels := SeriesLabels(byShard)
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append(labels[:len(labels):len(labels)], more...), nil)
	}
	return &Collector{
		shards: shards, inFlight: inFlight, byShard: byShard,
		lag:      desc("bridge_lag_seconds", "Age of the oldest committed row that is not published, of the table that lags most; 0 when drained, NaN while no table of the series can be read."),
		position: desc("bridge_position", "Id up to which a table is published and saved; of several tables the sum."),
		gaps:     desc("bridge_open_gaps", "Ranges of ids below the position that have not been seen; of several tables the sum."),
		unpolled: desc("bridge_unpolled_ids", "Ids below the position that were not published and are no longer polled: reconcile compares them with the table. Of several tables the sum."),
		ids:      desc("bridge_open_ids", "Ids below the position that have not been seen: hot ones are looked for at every poll, cold ones every minute. Of several tables the sum.", "temperature"),
		flight:   desc("bridge_ids_in_flight", "Ids that an open transaction has inserted; of several tables the sum."),
		gapAge:   desc("bridge_oldest_gap_seconds", "Age of the oldest gap of all tables; 0 when there is none."),
		memory:   desc("bridge_gaps_bytes", "Memory that the gaps of a table take; of several tables the most."),
		poll:     desc("bridge_last_successful_poll_timestamp_seconds", "When the source last answered for the table that was read longest ago, Unix time; 0 before the first time. Stopped and paused tables are left out, NaN where there is no other."),
		state:    desc("bridge_shard_state", "Tables in the state.", "state"),
		paused:   desc("bridge_paused_since_timestamp_seconds", "Since when the table is paused that was paused first, Unix time; 0 where none is."),
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
	for _, d := range []*prometheus.Desc{c.lag, c.position, c.gaps, c.ids, c.unpolled, c.flight, c.gapAge, c.memory, c.poll, c.state, c.paused, c.bytes} {
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
	out <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(c.inFlight()))
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
	gauge(c.paused, t.paused)
}

// total is what one shard, or the shards of a stream, show. No comparison with NaN holds, so that
// an alert does not fire for what is not known, and the series stays.
type total struct {
	// lag is the highest one that is known, poll the earliest of the shards that are not stopped:
	// NaN where there is none.
	lag, poll                                   float64
	position, gaps, hot, cold, unpolled, flight float64
	gapAge, memory                              float64
	// paused is the earliest pause, 0 for none.
	paused float64
	states map[State]int
}

func newTotal() total {
	return total{lag: math.NaN(), poll: math.NaN(), states: make(map[State]int, len(states))}
}

func (t *total) add(s *Status) {
	if lag := s.LagSeconds; lag != nil && !(*lag <= t.lag) {
		t.lag = *lag
	}
	poll := 0.0
	if !s.LastPoll.IsZero() {
		poll = float64(s.LastPoll.UnixMilli()) / 1000
	}
	if s.State != Stopped && s.State != Paused && !(poll >= t.poll) {
		t.poll = poll
	}
	t.position += float64(s.Position)
	t.gaps += float64(s.OpenGaps)
	t.hot += float64(s.Gaps.Hot)
	t.cold += float64(s.Gaps.Cold)
	t.unpolled += float64(s.Gaps.Unpolled)
	t.flight += float64(s.Gaps.InFlight)
	t.gapAge = max(t.gapAge, s.Gaps.OldestSeconds)
	t.memory = max(t.memory, float64(s.Gaps.Bytes))
	t.states[s.State]++
	if at := s.PausedAt; !at.IsZero() && (t.paused == 0 || at.UnixMilli() < int64(1000*t.paused)) {
		t.paused = float64(at.UnixMilli()) / 1000
	}
}
