package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/shard"
	"bridge/sink"
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

// newOutageCollector collects whether what bridge depends on can be reached. It asks source and
// bus, as readiness does.
func newOutageCollector(a *App) prometheus.Collector {
	c := new(collector)
	up := c.metric(gauge, "bridge_dependency_up", "1 if the dependency can be used, 0 while it is away: the source, the bus, the checkpoint's disk, and where they are used the standby group and the progress on the bus.", "dependency")
	heldUp := c.metric(gauge, "bridge_held_up_by_transaction", "1 while an open transaction of a producer hides the end of a topic.")
	c.collect = func(send send) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), scrapeTimeout, errSlowAnswer)
		defer cancel()
		fromSource, fromBus := a.probe(ctx)
		away := map[string]bool{dependencySource: fromSource != nil, dependencyBus: fromBus != nil, dependencyCheckpoint: a.savesHang()}
		if a.member != nil {
			away[standbyDependency] = false
		}
		if a.copies != nil {
			away[copiesDependency] = false
		}
		for _, fault := range a.faults.Outages() {
			name, _, _ := strings.Cut(fault.Dependency, "/")
			if _, shown := away[name]; shown {
				away[name] = true
			}
		}
		for name, is := range away {
			send(up, oneIf(!is), name)
		}
		send(heldUp, oneIf(errors.Is(fromBus, sink.ErrHeldUp)))
	}
	return c
}

var errSlowAnswer = errors.New("no answer within the time of a scrape")

// savesHang reports whether a shard waits for the disk of the checkpoint.
func (a *App) savesHang() bool {
	for _, sh := range a.shards {
		if s := sh.Status(); s.State == shard.Waiting && s.SaveHangs {
			return true
		}
	}
	return false
}
