package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/httpapi"
	"bridge/internal/option"
	"bridge/internal/outage"
	"bridge/internal/shard"
)

// watch asks source and bus every watchEvery, and waits watchWithin for an answer, a little longer
// than sinks do: an outage is known within 5 s of its beginning.
const (
	watchEvery  = time.Second
	watchWithin = 3500 * time.Millisecond
	// sourceWithin is how long a source may take to answer.
	sourceWithin = 3 * time.Second
)

var errSlowProbe = fmt.Errorf("no answer within %v", watchWithin)

// watch gives whatever waits for source or bus a reason, in log, status and readiness, until ctx
// ends; then it returns nil. Shards and sinks report the errors that they meet. watch finds what
// hangs without an error, and what nobody has met yet.
func (a *App) watch(ctx context.Context) error {
	bus := a.opts.Config.Sink.Scheme + outage.Probed
	// These log themselves what they meet in Ready.
	own := a.opts.Config.Sink.Scheme == "kafka" || a.opts.Config.Sink.Scheme == "nats"
	for {
		asking, cancel := context.WithTimeoutCause(ctx, watchWithin, errSlowProbe)
		fromSource, fromBus := a.probe(asking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		a.note(shard.SourceDependency+outage.Probed, fromSource)
		if !own {
			a.note(bus, fromBus)
		}
		if backoff.Pause(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// sourceReady returns nil when the source answers in time.
func (a *App) sourceReady(ctx context.Context) error {
	src := &a.opts.Config.Source
	ctx, cancel := context.WithTimeoutCause(ctx, sourceWithin, option.Errorf("%s has not answered within %v: see to %s, to the server and to firewalls", src.Addr, sourceWithin, option.SourceURL))
	defer cancel()
	return a.source.Ready(ctx)
}

// note has an answer begin or end an outage.
func (a *App) note(dependency string, err error) {
	if err == nil {
		a.faults.OK(dependency)
		return
	}
	a.faults.Fail(dependency, err)
}

// busOutages returns what the sink reports itself.
func (a *App) busOutages() []outage.Outage {
	if bus, ok := a.sink.(interface{ Outages() []outage.Outage }); ok {
		return bus.Outages()
	}
	return nil
}

// nameWaits gives tables that were not read yet the outages as the reason, where there are any.
func nameWaits(status *httpapi.Status) {
	var away []string
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", status.Source}, {"the bus", status.Bus}, {"the checkpoint", status.Checkpoint}, {"the progress on the bus", status.Progress}} {
		if d := one.state; d != nil && d.Error != nil {
			away = append(away, one.name+": "+*d.Error)
		}
	}
	if len(away) == 0 {
		return
	}
	reason := "the table was not read yet: it waits for " + strings.Join(away, "; and for ")
	for i := range status.Streams {
		shards := status.Streams[i].Shards
		for j := range shards {
			if s := &shards[j]; s.State == string(shard.Starting) && s.LastError == nil {
				s.Reason, s.Remedy = httpapi.Given(reason), httpapi.Given(waitingRemedy)
			}
		}
	}
}
