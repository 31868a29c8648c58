package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/standby"
	"example.org/bridge/sink"
)

// probed is a source without a name that answers as a probe says.
func probed(p *httpapi.Probe) *Sources {
	cfg := &config.Config{Sources: make([]config.Source, 1)}
	return &Sources{cfg: cfg, all: []*database{{Source: &cfg.Sources[0], probe: p}}}
}

// collected returns the values of the metrics of a collector, by name and dependency.
func collected(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return gathered(t, registry)
}

func TestDependenciesThatAreAwayShow(t *testing.T) {
	const up = "bridge_dependency_up "
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		source, bus error
		fault       string
		away        []string
	}{
		"all are up":                          {},
		"the source does not answer":          {source: refused, away: []string{up + "source"}},
		"the bus does not answer":             {bus: refused, away: []string{up + "bus"}},
		"the disk takes no writes of a table": {fault: "checkpoint/orders/orders", away: []string{up + "checkpoint"}},
		"the disk takes no writes at all":     {fault: "checkpoint", away: []string{up + "checkpoint"}},
		"a table alone cannot be read":        {fault: "shard orders/orders"},
		"the group":                           {fault: standbyDependency, away: []string{up + "standby group"}},
		"the progress":                        {fault: copiesDependency, away: []string{up + "progress on the bus"}},
	} {
		t.Run(name, func(t *testing.T) {
			faults := outage.New(slog.New(slog.DiscardHandler))
			if c.fault != "" {
				faults.Fail(c.fault, refused)
			}
			answers := func(err error) *httpapi.Probe {
				return &httpapi.Probe{Ready: func(context.Context) error { return err }}
			}
			a := &App{
				parts: parts{faults: faults, copies: buscopy.NewKeeper(buscopy.Options{}), sources: probed(answers(c.source))},
				kept:  &kept{member: standby.New(standby.Options{})}, sinkProbe: answers(c.bus),
			}
			got := collected(t, newOutageCollector(a))
			for _, name := range c.away {
				if value, shown := got[name]; !shown || value != 0 {
					t.Errorf("%s is %v", name, value)
				}
				delete(got, name)
			}
			for name, value := range got {
				if want := oneIf(name != "bridge_held_up_by_transaction"); value != want {
					t.Errorf("%s is %v, want %v", name, value, want)
				}
			}
			if len(got)+len(c.away) != 6 {
				t.Errorf("there are %v", got)
			}
		})
	}
}

func TestAScrapeDoesNotWaitForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &App{
			kept: new(kept),
			parts: parts{
				faults:  outage.New(slog.New(slog.DiscardHandler)),
				sources: probed(&httpapi.Probe{Ready: func(context.Context) error { <-release; return nil }}),
			},
			sinkProbe: &httpapi.Probe{Ready: func(context.Context) error { return fmt.Errorf("orders/3: %w", sink.ErrHeldUp) }},
		}
		begun := time.Now()
		got := collected(t, newOutageCollector(a))
		if took := time.Since(begun); took != scrapeTimeout || got["bridge_dependency_up source"] != 0 || got["bridge_held_up_by_transaction"] != 1 {
			t.Errorf("after %s: %v", took, got)
		}
		// There is neither a group nor progress on the bus.
		if len(got) != 4 {
			t.Errorf("there are %v", got)
		}
		close(release)
	})
}
