package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/shard"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// metric is a metric of a collector.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// send sends a value of a metric.
type send func(m metric, v float64, labels ...string)

// collector collects its metrics at each scrape.
type collector struct {
	descs   []*prometheus.Desc
	collect func(send)
}

// metric adds a metric.
func (c *collector) metric(kind prometheus.ValueType, name, help string, labels ...string) metric {
	desc := prometheus.NewDesc(name, help, labels, nil)
	c.descs = append(c.descs, desc)
	return metric{desc, kind}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
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

// newBuildInfo returns a metric that is always 1 and whose labels say which build this is.
func newBuildInfo(b Build) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "bridge_build_info",
		Help:        "1; the labels say which version and commit of bridge this is, and which Go built it.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// newDeliveryInfo returns a metric that is always 1 and whose label is the delivery mode.
func newDeliveryInfo(mode string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "bridge_delivery_info",
		Help:        "1; the label says how often consumers may see an event.",
		ConstLabels: prometheus.Labels{"delivery": mode},
	}, func() float64 { return 1 })
}

// newGapsLimit returns a metric of how much memory the gaps of one of so many tables may take.
func newGapsLimit(tables int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bridge_gaps_limit_bytes",
		Help: "Memory that the gaps of a shard may take; the rest is read from the checkpoint when it is needed.",
	}, func() float64 { return float64(ledgerBytes(tables)) })
}

// registerMetrics registers the gauges of the shards, their reconciles, catch-up and the program.
// The shards register the counters.
func registerMetrics(registry prometheus.Registerer, a *App) {
	byShard := a.opts.Config.MetricsByShard
	registry.MustRegister(shard.NewCollector(a.shards, a.limits, byShard), newReconcileCollector(a.reconcilers, byShard),
		newRecoveryCollector(a.streams, a.recovery), newOutageCollector(a), newBuildInfo(a.opts.Build), newDeliveryInfo(a.opts.Config.Sink.Delivery()),
		newGapsLimit(countTables(a.opts.Config)))
	if a.member != nil {
		registry.MustRegister(newStandbyCollector(a.member, a.recovery))
	}
	if a.copies != nil {
		registry.MustRegister(newCopiesCollector(a.copies))
	}
}
