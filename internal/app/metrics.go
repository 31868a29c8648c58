package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/shard"
)

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
		&recoveryCollector{streams: a.streams, recovery: a.recovery}, &outageCollector{a}, newBuildInfo(a.opts.Build), newDeliveryInfo(a.opts.Config.Sink.Delivery()),
		newGapsLimit(countTables(a.opts.Config)))
	if a.member != nil {
		registry.MustRegister(&standbyCollector{a.member, a.recovery})
	}
	if a.copies != nil {
		registry.MustRegister(&copiesCollector{a.copies})
	}
}
