package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/catchup"
)

// recoveryCollector collects how far streams have caught up, and their nominated entities, at each
// scrape.
type recoveryCollector struct {
	streams  []*stream
	recovery *catchup.CatchUp
}

var _ prometheus.Collector = (*recoveryCollector)(nil)

var (
	streamLabel     = []string{"stream"}
	caughtUpDesc    = prometheus.NewDesc("bridge_caught_up", "1 once the stream has read from the bus what the checkpoint lacked, 0 before.", streamLabel, nil)
	catchUpReadDesc = prometheus.NewDesc("bridge_catch_up_messages_total", "Messages of the stream that were read back from the bus.", streamLabel, nil)
	catchUpLeftDesc = prometheus.NewDesc("bridge_catch_up_left", "Offsets that are left to read until the stream has caught up, those of other messages included.", streamLabel, nil)
	nominatedDesc   = prometheus.NewDesc("bridge_nominated_entities", "Entities that wait until their rows are read in all tables of the stream.", streamLabel, nil)
	twinsDesc       = prometheus.NewDesc("bridge_twin_rows_total", "How often a key was found to have two rows.", streamLabel, nil)
	supersededDesc  = prometheus.NewDesc("bridge_superseded", "1 once another process publishes the same streams, and this one publishes nothing any more.", nil, nil)
	recoveryMetrics = []*prometheus.Desc{caughtUpDesc, catchUpReadDesc, catchUpLeftDesc, nominatedDesc, twinsDesc, supersededDesc}
)

// Describe implements prometheus.Collector.
func (c *recoveryCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range recoveryMetrics {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *recoveryCollector) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, stream string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, stream)
	}
	progress := c.recovery.Progress()
	out <- prometheus.MustNewConstMetric(supersededDesc, prometheus.GaugeValue, oneIf(progress.Superseded != nil))
	for _, s := range progress.Streams {
		send(caughtUpDesc, prometheus.GaugeValue, oneIf(s.Ready && s.Err == nil), s.Stream)
		send(catchUpReadDesc, prometheus.CounterValue, float64(s.Messages), s.Stream)
		send(catchUpLeftDesc, prometheus.GaugeValue, float64(s.Left), s.Stream)
	}
	for _, s := range c.streams {
		if s.movers != nil {
			send(nominatedDesc, prometheus.GaugeValue, float64(s.movers.Waiting()), s.Name)
			send(twinsDesc, prometheus.CounterValue, float64(s.movers.Twins()), s.Name)
		}
	}
}
