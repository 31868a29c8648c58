package gcpace

import (
	"context"
	"runtime/metrics"
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
		{"who does nothing is collected more often", busy, 0.3, 0, quiet},
		{"and goes on so", quiet, 0, 0, quiet},
		{"who does something stays as he was", quiet, 0.4, 0.4, quiet},
		{"however that is", busy, 0.4, 0.4, busy},
		{"who catches up for a while stays quiet", quiet, 0.1, 1, quiet},
		{"on however many cores", quiet, 0.1, 8, quiet},
		{"who has much to do is collected as by default", quiet, 0.4, 1, busy},
		{"and stays so with more cores", busy, 1.5, 2, busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pace{c.percent, c.mean}
			if got := p.update(c.share); got != c.want {
				t.Errorf("a look at %g after a mean of %g makes %d of %d, want %d", c.share, c.mean, got, c.percent, c.want)
			}
		})
	}
}

func TestSpentGrowsWithWork(t *testing.T) {
	before, deadline := spent(), time.Now().Add(time.Minute)
	for spent() <= before {
		if time.Now().After(deadline) {
			t.Fatalf("%g CPU-seconds a minute long", before)
		}
	}
}

func TestRun(t *testing.T) {
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
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
		tick, deadline := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
		defer tick.Stop()
		for percent() >= before {
			select {
			case <-tick.C:
			case <-deadline:
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
