package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"time"

	"bridge/client"
	"bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() {
	stage.Main(stage.Example{Name: "stp-info", Files: files, Story: story,
		Hurry: map[string]string{"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "100ms", "BRIDGE_RECONCILE_INTERVAL": "2s"}})
}

const stps, readers = 5, 3

// story has TGF change capabilities for some six seconds while clients query STP-Info, which
// restarts in between.
func story(ctx context.Context, s *stage.Stage) error {
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	p := &service{Stage: s, info: &info{store: table{s}, cache: newCache()}, handled: newHandled()}
	p.events = p.consume(ctx)
	url, err := p.serve(ctx)
	if err != nil {
		return err
	}
	s.Say("STP-Info consumes the events of TGF's table and answers on %s/stps/stp-0000", url)
	writing := s.Begin(ctx, (&tgf{Stage: s, tally: &p.Tally}).run)
	for range readers {
		s.Begin(ctx, func(ctx context.Context) error { return p.read(ctx, url) })
	}
	if err := stage.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	p.events.End()
	s.Say("STP-Info stops for a deployment; TGF goes on")
	if err := stage.Pause(ctx, time.Second); err != nil {
		return err
	}
	// A new process begins with an empty cache; what it missed comes from the bus.
	p.info.cache.clear()
	p.events = p.consume(ctx)
	s.Say("it is back, and takes up the events where it was")
	if err := stage.Pause(ctx, 2*time.Second); err != nil {
		return err
	}
	writing.End()
	return p.conclude(ctx, url)
}

// consume handles the events of the stream as one process of the group stp-info.
func (p *service) consume(ctx context.Context) *stage.Task {
	return p.Begin(ctx, func(ctx context.Context) error {
		o := p.Options("stp")
		o.Types = map[string]client.Operation{"StpCapabilityAddedMessage": client.Added, "StpCapabilityDeletedMessage": client.Deleted}
		events, err := client.NewEvents(p.Bus, p.Name("stp-info"), o, p.handle)
		if err != nil {
			return err
		}
		return events.Run(ctx)
	})
}

// conclude compares the answer for each STP with TGF's table.
func (p *service) conclude(ctx context.Context, url string) error {
	for n := range stps {
		stp := stpName(n)
		if err := p.Wait(ctx, "the same answer as TGF's table has for "+stp, func(ctx context.Context) (bool, error) {
			want, err := truth(ctx, p.Stage, stp)
			got, failed := get(ctx, url, stp)
			return maps.Equal(got, want), errors.Join(err, failed)
		}); err != nil {
			return err
		}
	}
	if stale := p.Of("stale answers"); stale > 0 {
		return fmt.Errorf("%d answers were older than what STP-Info had handled", stale)
	}
	hits, misses := p.info.cache.queries()
	p.Say("TGF: %d capabilities set, %d deleted; STP-Info handled %d events", p.Of("set"), p.Of("deleted"), p.Of("events"))
	p.Say("%d answers were compared with what was handled before: all right; the cache had %d hits and %d misses", p.Of("answers compared"), hits, misses)
	p.Conclude("all %d STPs answer as TGF's table has them, and no answer had a capability whose deletion was handled", stps)
	return nil
}
