package shard

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/sink"
)

// Metrics counts what the shards of a process do. It is safe for concurrent use.
type Metrics struct {
	records     *prometheus.CounterVec
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
	queries      *prometheus.HistogramVec
	saves        *prometheus.HistogramVec
}

// NewMetrics registers the metrics with registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
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
		records: counter("bridge_records_total", "Records published and acknowledged.", "stream"),
		events:  counter("bridge_events_total", "Events published and acknowledged, by type.", "stream", "type"),
		publish: histogram("bridge_publish_seconds", "Time from handing a batch to the bus until all of it was acknowledged.",
			prometheus.ExponentialBuckets(0.0005, 2, 18), "stream"),
		queries: histogram("bridge_source_query_seconds", "Time of the reads of the tables, failed ones too, by what they ask for.",
			prometheus.ExponentialBuckets(0.0005, 3, 12), "stream", "query"),
		saves: histogram("bridge_checkpoint_save_seconds", "Time until a save of the checkpoint was durable, or had failed.",
			prometheus.ExponentialBuckets(0.0005, 3, 12), "stream"),
		rejected:     counter("bridge_rejected_total", "Messages that the bus refused for good.", "stream"),
		deadLetters:  counter("bridge_dead_letters_total", "Rejected messages put aside at the dead-letter destination.", "stream"),
		duplicates:   counter("bridge_duplicate_acks_total", "Messages that the bus dropped as repeats though they were sent for the first time since the start.", "stream"),
		badValues:    counter("bridge_bad_values_total", "Values published as null because an event cannot hold them.", "stream"),
		schemaBreaks: counter("bridge_breaking_schema_changes_total", "Tables whose events lost a member or gave it another type under the same EVENT_VERSION.", "stream"),
		late:         counter("bridge_late_records_total", "Records that appeared inside a gap and were published late.", "stream"),
		givenUp:      counter("bridge_ids_given_up_total", "Ids that were not seen until GAP_TTL and are no longer polled: reconcile publishes a row that appears there.", "stream", "reason"),
		retries:      counter("bridge_retries_total", "Attempts that failed and are repeated, by place.", "place"),
	}
}

// show creates every series of a shard and its stream at 0, before anything is counted: an alert on
// an increase does not see the first count of a series that appears with it.
func (m *Metrics) show(stream string, types, dependencies []string) {
	for _, counter := range []*prometheus.CounterVec{m.records, m.rejected, m.deadLetters, m.duplicates, m.badValues, m.schemaBreaks, m.late} {
		counter.WithLabelValues(stream)
	}
	for _, kind := range types {
		m.events.WithLabelValues(stream, kind)
	}
	m.givenUp.WithLabelValues(stream, reasonTTL)
	for _, dependency := range dependencies {
		m.retries.WithLabelValues(dependency)
	}
	m.publish.WithLabelValues(stream)
	m.saves.WithLabelValues(stream)
	for _, query := range queries {
		m.queries.WithLabelValues(stream, string(query))
	}
}

// query says what a read of a table asks for.
type query string

// The queries that are timed. A read of the head is not: it waits for those of other shards.
const (
	queryPage    query = "page"
	queryRows    query = "rows"
	queryIDs     query = "ids"
	queryChanges query = "changes"
)

var queries = []query{queryPage, queryRows, queryIDs, queryChanges}

// queried counts a query that began at a time and has ended.
func (m *Metrics) queried(stream string, q query, began time.Time) {
	m.queries.WithLabelValues(stream, string(q)).Observe(time.Since(began).Seconds())
}

// saved counts a save that began at a time and has ended.
func (m *Metrics) saved(stream string, began time.Time) {
	m.saves.WithLabelValues(stream).Observe(time.Since(began).Seconds())
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
		m.events.WithLabelValues(stream, kind).Add(float64(run))
		acked += run
		start = end
	}
	m.records.WithLabelValues(stream).Add(float64(acked))
	if n := len(o.Rejected); n > 0 {
		m.rejected.WithLabelValues(stream).Add(float64(n))
	}
	if o.Duplicates > 0 {
		m.duplicates.WithLabelValues(stream).Add(float64(o.Duplicates))
	}
	return acked
}

func (m *Metrics) deadLetter(stream string) { m.deadLetters.WithLabelValues(stream).Inc() }

// Collector shows the shards' statuses and the bytes in flight at each scrape.
type Collector struct {
	shards []*Shard
	limits *Limits
}

// NewCollector returns a collector to register with a prometheus.Registerer.
func NewCollector(shards []*Shard, limits *Limits) *Collector {
	return &Collector{shards: shards, limits: limits}
}

var _ prometheus.Collector = (*Collector)(nil)

var (
	perShard     = []string{"stream", "shard"}
	lagDesc      = prometheus.NewDesc("bridge_lag_seconds", "Age of the oldest committed row that is not published; 0 when drained, NaN while the source cannot be read.", perShard, nil)
	positionDesc = prometheus.NewDesc("bridge_position", "Id up to which the shard is published and saved.", perShard, nil)
	gapsDesc     = prometheus.NewDesc("bridge_open_gaps", "Ranges of ids below the position that have not been seen.", perShard, nil)
	unpolledDesc = prometheus.NewDesc("bridge_unpolled_ids", "Ids below the position that were not published and are no longer polled: reconcile compares them with the table.", perShard, nil)
	idsDesc      = prometheus.NewDesc("bridge_open_ids", "Ids below the position that have not been seen: hot ones are looked for at every poll, cold ones every minute.", append(perShard, "temperature"), nil)
	flightDesc   = prometheus.NewDesc("bridge_ids_in_flight", "Ids that an open transaction has inserted.", perShard, nil)
	gapAgeDesc   = prometheus.NewDesc("bridge_oldest_gap_seconds", "Age of the oldest gap; 0 when there is none.", perShard, nil)
	pollDesc     = prometheus.NewDesc("bridge_last_successful_poll_timestamp_seconds", "When the source last answered, Unix time; 0 before the first time.", perShard, nil)
	stateDesc    = prometheus.NewDesc("bridge_shard_state", "1 for the state that the shard is in, 0 for the others.", append(perShard, "state"), nil)
	bytesDesc    = prometheus.NewDesc("bridge_inflight_bytes", "Bytes reserved by batches that are read, wait or are in flight.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagDesc, positionDesc, gapsDesc, idsDesc, unpolledDesc, flightDesc, gapAgeDesc, pollDesc, stateDesc, bytesDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, shard := range c.shards {
		s := shard.Status()
		gauge(lagDesc, lagSeconds(&s), s.Stream, s.Shard)
		gauge(positionDesc, float64(s.Position), s.Stream, s.Shard)
		gauge(gapsDesc, float64(s.OpenGaps), s.Stream, s.Shard)
		gauge(idsDesc, float64(s.Gaps.Hot), s.Stream, s.Shard, "hot")
		gauge(idsDesc, float64(s.Gaps.Cold), s.Stream, s.Shard, "cold")
		gauge(unpolledDesc, float64(s.Gaps.Unpolled), s.Stream, s.Shard)
		gauge(flightDesc, float64(s.Gaps.InFlight), s.Stream, s.Shard)
		gauge(gapAgeDesc, s.Gaps.OldestAge.Seconds(), s.Stream, s.Shard)
		for _, state := range states {
			in := 0.0
			if state == s.State {
				in = 1
			}
			gauge(stateDesc, in, s.Stream, s.Shard, string(state))
		}
		poll := 0.0
		if !s.LastPoll.IsZero() {
			poll = float64(s.LastPoll.UnixMilli()) / 1000
		}
		gauge(pollDesc, poll, s.Stream, s.Shard)
	}
	gauge(bytesDesc, float64(c.limits.InFlight()))
}

// lagSeconds is NaN where the lag is not known: no comparison with it holds, and the series stays.
func lagSeconds(s *Status) float64 {
	if !s.LagKnown {
		return math.NaN()
	}
	return s.Lag.Seconds()
}
