package pipeline

import (
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
	late        *prometheus.CounterVec
	givenUp     *prometheus.CounterVec
}

// NewMetrics registers the metrics with registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		records: counter("bridge_records_total", "Records published and acknowledged.", "stream"),
		events:  counter("bridge_events_total", "Events published and acknowledged, by type.", "stream", "type"),
		publish: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "bridge_publish_seconds",
			Help:    "Time from handing a batch to the bus until all of it was acknowledged.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"stream"}),
		rejected:    counter("bridge_rejected_total", "Messages that the bus refused for good.", "stream"),
		deadLetters: counter("bridge_dead_letters_total", "Rejected messages put aside at the dead-letter destination.", "stream"),
		duplicates:  counter("bridge_duplicate_acks_total", "Messages that the bus dropped as repeats though they were sent for the first time since the start.", "stream"),
		badValues:   counter("bridge_bad_values_total", "Values published as null because an event cannot hold them.", "stream"),
		late:        counter("bridge_late_records_total", "Records that appeared inside a gap and were published late.", "stream"),
		givenUp:     counter("bridge_ids_given_up_total", "Ids that were not seen and are no longer looked for, by reason.", "stream", "reason"),
		retries:     counter("bridge_retries_total", "Attempts that failed and are repeated, by place.", "place"),
	}
	registry.MustRegister(m.publish)
	return m
}

// Retry counts a failed attempt at place; it is a sink.Fault.
func (m *Metrics) Retry(place string, _ error) { m.retries.WithLabelValues(place).Inc() }

func (m *Metrics) outcome(stream string, messages []sink.Message, o *sink.Outcome) {
	acked := 0
	// Runs of one type are the rule.
	for start := 0; start < len(o.Status); {
		kind, end := messages[start].Type, start
		run := 0
		for ; end < len(o.Status) && messages[end].Type == kind; end++ {
			if o.Status[end] == sink.Acked {
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
	lagDesc      = prometheus.NewDesc("bridge_lag_seconds", "Age of the oldest committed row that is not published; 0 when drained.", perShard, nil)
	positionDesc = prometheus.NewDesc("bridge_position", "Id up to which the shard is published and saved.", perShard, nil)
	gapsDesc     = prometheus.NewDesc("bridge_open_gaps", "Ranges of ids below the position that have not been seen.", perShard, nil)
	idsDesc      = prometheus.NewDesc("bridge_open_ids", "Ids below the position that have not been seen: hot ones are looked for at every poll, cold ones every minute.", append(perShard, "temperature"), nil)
	flightDesc   = prometheus.NewDesc("bridge_ids_in_flight", "Ids that an open transaction has inserted.", perShard, nil)
	gapAgeDesc   = prometheus.NewDesc("bridge_oldest_gap_seconds", "Age of the oldest gap; 0 when there is none.", perShard, nil)
	pollDesc     = prometheus.NewDesc("bridge_last_successful_poll_timestamp_seconds", "When the source last answered, Unix time; 0 before the first time.", perShard, nil)
	stateDesc    = prometheus.NewDesc("bridge_shard_state", "1 for the state that the shard is in.", append(perShard, "state"), nil)
	bytesDesc    = prometheus.NewDesc("bridge_inflight_bytes", "Bytes reserved by batches that are read, wait or are in flight.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagDesc, positionDesc, gapsDesc, idsDesc, flightDesc, gapAgeDesc, pollDesc, stateDesc, bytesDesc} {
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
		gauge(lagDesc, s.Lag.Seconds(), s.Stream, s.Shard)
		gauge(positionDesc, float64(s.Position), s.Stream, s.Shard)
		gauge(gapsDesc, float64(s.OpenGaps), s.Stream, s.Shard)
		gauge(idsDesc, float64(s.Gaps.Hot), s.Stream, s.Shard, "hot")
		gauge(idsDesc, float64(s.Gaps.Cold), s.Stream, s.Shard, "cold")
		gauge(flightDesc, float64(s.Gaps.InFlight), s.Stream, s.Shard)
		gauge(gapAgeDesc, s.Gaps.OldestAge.Seconds(), s.Stream, s.Shard)
		gauge(stateDesc, 1, s.Stream, s.Shard, string(s.State))
		poll := 0.0
		if !s.LastPoll.IsZero() {
			poll = float64(s.LastPoll.UnixMilli()) / 1000
		}
		gauge(pollDesc, poll, s.Stream, s.Shard)
	}
	gauge(bytesDesc, float64(c.limits.InFlight()))
}
