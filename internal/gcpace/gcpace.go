package gcpace

import (
	"context"
	"os"
	"runtime/debug"
	"syscall"
	"time"
)

const (
	// interval is the time from one look at the process's CPU time to the next.
	interval = 5 * time.Second
	// busy and quiet are the values of GOGC: busy is Go's default, with less than quiet the cost
	// grows faster than the memory falls.
	busy, quiet = 100, 50
	// much and little are shares of one core. A process that uses little spends no more than some
	// hundredths of a core on the collector with either value.
	much, little = 0.5, 0.25
	// weight is what one look counts for in the mean, so that to catch up for ten seconds makes no
	// busy process, on however many cores.
	weight = 0.25
)

// Run sets the collector's percent until ctx ends, and then gives it back its first value. Where
// the environment sets GOGC or GOMEMLIMIT, a person has decided, and Run does nothing.
func Run(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	// A backlog is often there from the start.
	p := pace{percent: busy, share: much}
	defer debug.SetGCPercent(debug.SetGCPercent(p.percent))
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for used, at := spent(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		total, now := spent(), time.Now()
		if before := p.percent; p.update((total-used)/now.Sub(at).Seconds()) != before {
			debug.SetGCPercent(p.percent)
		}
		used, at = total, now
	}
}

// pace is how often the collector runs.
type pace struct {
	percent int
	// share is the share of one core that the process uses, a moving mean.
	share float64
}

// update adds a share to the mean and returns the percent that follows.
func (p *pace) update(share float64) int {
	p.share += weight * (min(share, 1) - p.share)
	switch {
	case p.share > much:
		p.percent = busy
	case p.share < little:
		p.percent = quiet
	}
	return p.percent
}

// spent returns the CPU-seconds that the process has used. It does not fail on Unix: its arguments
// are good.
func spent() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
