package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/shard"
	"bridge/sink"
)

// outageCollector collects at each scrape whether what bridge depends on can be reached. It asks
// source and bus, as readiness does.
type outageCollector struct{ app *App }

var _ prometheus.Collector = (*outageCollector)(nil)

var (
	dependencyUpDesc = prometheus.NewDesc("bridge_dependency_up", "1 if the dependency can be used, 0 while it is away: the source, the bus, the checkpoint's disk, and where they are used the standby group and the progress on the bus.",
		[]string{"dependency"}, nil)
	heldUpDesc = prometheus.NewDesc("bridge_held_up_by_transaction", "1 while an open transaction of a producer hides the end of a topic.", nil, nil)
)

// The dependencies, as the metric names them. Those of standby group and progress have the names
// of the outage log.
const (
	dependencySource     = "source"
	dependencyBus        = "bus"
	dependencyCheckpoint = "checkpoint"
)

// scrapeTimeout bounds how long a scrape waits for source and bus, which count as away then.
const scrapeTimeout = 3 * time.Second

// Describe implements prometheus.Collector.
func (c *outageCollector) Describe(out chan<- *prometheus.Desc) {
	out <- dependencyUpDesc
	out <- heldUpDesc
}

// Collect implements prometheus.Collector.
func (c *outageCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), scrapeTimeout, errSlowAnswer)
	defer cancel()
	var fromSource, fromBus error
	var asked sync.WaitGroup
	asked.Go(func() { fromSource = c.app.sourceProbe.Do(ctx) })
	asked.Go(func() { fromBus = c.app.sinkProbe.Do(ctx) })
	asked.Wait()

	away := map[string]bool{dependencySource: fromSource != nil, dependencyBus: fromBus != nil, dependencyCheckpoint: c.savesHang()}
	if c.app.member != nil {
		away[standbyDependency] = false
	}
	if c.app.copies != nil {
		away[copiesDependency] = false
	}
	for _, fault := range c.app.faults.Outages() {
		name, _, _ := strings.Cut(fault.Dependency, "/")
		if _, shown := away[name]; shown {
			away[name] = true
		}
	}
	for name, is := range away {
		out <- prometheus.MustNewConstMetric(dependencyUpDesc, prometheus.GaugeValue, oneIf(!is), name)
	}
	out <- prometheus.MustNewConstMetric(heldUpDesc, prometheus.GaugeValue, oneIf(errors.Is(fromBus, sink.ErrHeldUp)))
}

var errSlowAnswer = errors.New("no answer within the time of a scrape")

// savesHang reports whether a shard waits for the disk of the checkpoint.
func (c *outageCollector) savesHang() bool {
	for _, sh := range c.app.shards {
		if s := sh.Status(); s.State == shard.Waiting && s.SaveHangs {
			return true
		}
	}
	return false
}
