package gcpace

import (
	"context"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

func TestLook(t *testing.T) {
	for _, c := range []struct {
		name        string
		percent     int
		mean, share float64
		want        int
	}{
		{"what costs nothing is made twice as often", 100, 0, 0, 50},
		{"but not without end", 50, 0, 0, 50},
		{"what costs something stays", 50, 0.04, 0.04, 50},
		{"one collection of a large heap changes nothing", 50, 0.024, 0.24, 50},
		{"what costs much is made half as often, as by default", 50, 0.04, 0.8, 100},
		{"and no further", 100, 0.5, 0.5, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pace{c.percent, c.mean}
			if got := p.look(c.share); got != c.want {
				t.Errorf("a look at %g after a mean of %g makes %d of %d, want %d", c.share, c.mean, got, c.percent, c.want)
			}
		})
	}
}

// A load whose cost falls by half with twice the percent finds a percent and stays there.
func TestASteadyLoadComesToRest(t *testing.T) {
	for cost := 0.0001; cost < 0.5; cost *= 1.1 {
		p, last := pace{percent: most, share: first}, 0
		for i := range 200 {
			before := p.percent
			if p.look(cost*most/float64(before)) != before {
				last = i
			}
		}
		if last > 20 {
			t.Errorf("a load of %.4f cores at the default changes the percent at look %d", cost, last)
		}
	}
}

func TestRun(t *testing.T) {
	percent := func() int { p := debug.SetGCPercent(100); debug.SetGCPercent(p); return p }
	start := func(t *testing.T) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { Run(ctx) })
		stop = func() { cancel(); run.Wait() }
		t.Cleanup(stop)
		return stop
	}

	t.Run("an idle process is collected more often, and as before at the end", func(t *testing.T) {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		before := percent()
		stop := start(t)
		tick, patience := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
		defer tick.Stop()
		for percent() >= before {
			select {
			case <-tick.C:
			case <-patience:
				t.Fatalf("the percent is %d", percent())
			}
		}
		stop()
		if got := percent(); got != before {
			t.Errorf("the percent is %d at the end, it was %d", got, before)
		}
	})

	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run("where a person has set "+variable+" nothing is done", func(t *testing.T) {
			t.Setenv(variable, "100")
			done := make(chan struct{})
			go func() { defer close(done); Run(context.Background()) }()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Error("Run goes on")
			}
		})
	}
}
