package gcpace

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is the time from one look at the collector's cost to the next.
	interval = 5 * time.Second
	// most and least are the bounds of GOGC: most is Go's default, below least the cost grows faster than the memory falls.
	most, least = 100, 50
	// cheap and dear are shares of one core. Half the percent is about twice the cost: what is cheap is far from dear after the step.
	cheap, dear = 0.02, 0.08
	// first is what the cost is taken for at the start: a backlog is often there from then on.
	first = 2 * cheap
	// weight is what one look counts for in the mean, so that one collection of a large heap in a while is not a dear one.
	weight = 0.25
)

// Run sets the collector's percent until ctx ends, and then gives it back its first value. Where the environment sets GOGC or
// GOMEMLIMIT, a person has decided, and Run does nothing.
func Run(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := pace{percent: most, share: first}
	defer debug.SetGCPercent(debug.SetGCPercent(p.percent))
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for cost, at := spent(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		total, now := spent(), time.Now()
		if before := p.percent; p.look((total-cost)/now.Sub(at).Seconds()) != before {
			debug.SetGCPercent(p.percent)
		}
		cost, at = total, now
	}
}

// pace is how often the collector runs.
type pace struct {
	percent int
	// share is the share of one core that the collector has taken, a moving mean.
	share float64
}

// look takes a share in and returns the percent that follows.
func (p *pace) look(share float64) int {
	p.share += weight * (share - p.share)
	switch {
	case p.share > dear:
		p.percent = min(2*p.percent, most)
	case p.share < cheap:
		p.percent = max(p.percent/2, least)
	}
	return p.percent
}

// spent returns the CPU-seconds that the collector has taken since the start of the process. Marking on cores that have nothing else to
// do is among them: in a container they belong to somebody. The runtime counts them up at the end of each collection.
func spent() float64 {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
