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

// newCopiesCollector collects when progress was written to the bus.
func newCopiesCollector(k *buscopy.Keeper) prometheus.Collector {
	c := new(collector)
	written := c.metric(gauge, "bridge_progress_written_seconds", "When the progress of the stream was last written to the bus, as Unix time; 0 before. It is written when it has changed.", "stream")
	bytes := c.metric(gauge, "bridge_progress_bytes", "Size of the progress of the stream as it was last written to the bus.", "stream")
	c.collect = func(send send) {
		for _, s := range k.Status() {
			send(written, unix(s.Written), s.Stream)
			send(bytes, float64(s.Bytes), s.Stream)
		}
	}
	return c
}
