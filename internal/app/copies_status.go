package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/buscopy"
	"bridge/internal/httpapi"
)

// addCopies adds to a status, which has the streams in the order of the keeper, when their progress
// was written to the bus.
func addCopies(status *httpapi.Status, k *buscopy.Keeper) {
	if k == nil {
		return
	}
	for i, s := range k.Status() {
		status.Streams[i].Progress = &httpapi.ProgressStatus{WrittenAt: httpapi.Moment(s.Written), Bytes: s.Bytes}
	}
}

// copiesCollector collects when progress was written to the bus.
type copiesCollector struct{ copies *buscopy.Keeper }

var _ prometheus.Collector = (*copiesCollector)(nil)

var (
	copyWrittenDesc = prometheus.NewDesc("bridge_progress_written_seconds", "When the progress of the stream was last written to the bus, as Unix time; 0 before. It is written when it has changed.", streamLabel, nil)
	copyBytesDesc   = prometheus.NewDesc("bridge_progress_bytes", "Size of the progress of the stream as it was last written to the bus.", streamLabel, nil)
)

// Describe implements prometheus.Collector.
func (c *copiesCollector) Describe(out chan<- *prometheus.Desc) {
	out <- copyWrittenDesc
	out <- copyBytesDesc
}

// Collect implements prometheus.Collector.
func (c *copiesCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.copies.Status() {
		written := 0.0
		if !s.Written.IsZero() {
			written = float64(s.Written.UnixMilli()) / 1000
		}
		out <- prometheus.MustNewConstMetric(copyWrittenDesc, prometheus.GaugeValue, written, s.Stream)
		out <- prometheus.MustNewConstMetric(copyBytesDesc, prometheus.GaugeValue, float64(s.Bytes), s.Stream)
	}
}
