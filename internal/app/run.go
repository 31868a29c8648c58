package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
)

// restPolls bounds how often a second tables are polled that have had nothing new for a while.
const restPolls = 1000

// Run runs the app until ctx is cancelled, then publishes and saves the batches in flight within
// the shutdown timeout. An error means that the shutdown was not orderly.
func (a *App) Run(ctx context.Context) error { return a.run(ctx, a.scheduler.Run) }

// run is work as a member of the standby group.
func (a *App) run(ctx context.Context, beside func(context.Context) error) error {
	return a.elected(ctx, func(ctx context.Context) error { return a.work(ctx, beside) })
}

// work tails all tables, and runs the function beside, until ctx is cancelled; beside must end with
// its context. Then the shards publish what is in flight, while catch-up goes on, and what was
// applied is made durable. If anything returns an error, the process has to be restarted: work then
// shuts down the others in order.
func (a *App) work(ctx context.Context, beside func(context.Context) error) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := func(ctx context.Context, group *errgroup.Group, one func(context.Context) error) {
		group.Go(func() error {
			err := one(ctx)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	var tailing, recovering, saving errgroup.Group
	later := context.WithoutCancel(ctx)
	saves, endSaving := context.WithCancel(later)
	defer endSaving()
	start(saves, &saving, a.committer.Run)
	if a.copies != nil {
		start(saves, &saving, a.copies.Run)
		start(saves, &saving, a.generations.Run)
	}
	recovers, endRecovering := context.WithCancel(later)
	defer endRecovering()
	start(recovers, &recovering, a.catchUp)
	start(recovers, &recovering, a.recovery.Run)
	for _, s := range a.streams {
		if s.movers != nil {
			start(recovers, &recovering, func(ctx context.Context) error { return s.move(ctx, &a.parts) })
		}
	}
	start(running, &tailing, func(ctx context.Context) error { return shard.NewScheduler(restPolls).Run(ctx, a.shards...) })
	start(running, &tailing, a.watch)
	start(running, &tailing, a.admissions.compareAway)
	start(running, &tailing, func(ctx context.Context) error {
		a.begin(ctx, a.shards, a.sources)
		return nil
	})
	start(running, &tailing, beside)
	err := tailing.Wait()
	endRecovering()
	err = errors.Join(err, recovering.Wait())
	endSaving()
	return errors.Join(err, saving.Wait())
}

// catchUp reads what the bus holds. What it has read stays when ctx ends first.
func (a *App) catchUp(ctx context.Context) error {
	var err error
	switch {
	case a.generations == nil:
	case a.opts.inside:
		if err = a.generations.Last(ctx); errors.Is(err, buscopy.ErrNumber) {
			err = option.Errorf("%w: see %s", err, option.Share)
		} else if err == nil {
			// It gives further signs.
			_ = a.generations.Sign(ctx)
		}
	default:
		err = a.generations.Join(ctx)
	}
	if err == nil {
		err = a.recovery.Start(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch asks source and bus every watchEvery, and waits watchWithin for an answer, a little longer
// than sinks do: an outage is known within 5 s of its beginning.
const (
	watchEvery  = time.Second
	watchWithin = 3500 * time.Millisecond
)

var errSlowProbe = fmt.Errorf("no answer within %v", watchWithin)

// watch gives whatever waits for source or bus a reason, in log, status and readiness, until ctx
// ends; then it returns nil. Shards and sinks report the errors that they meet. watch finds what
// hangs without an error, and what nobody has met yet.
func (a *App) watch(ctx context.Context) error {
	bus := a.opts.Config.Sink.Scheme + outage.Probed
	for {
		asking, cancel := context.WithTimeoutCause(ctx, watchWithin, errSlowProbe)
		fromSources, fromBus := a.probe(asking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		for i, d := range a.sources.all {
			a.note(d.Label()+outage.Probed, fromSources[i])
			a.sources.note(d, fromSources[i])
		}
		if !a.opts.Config.Sink.LogsOutages {
			a.note(bus, fromBus)
		}
		if backoff.Pause(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// note has an answer begin or end an outage.
func (a *App) note(dependency string, err error) {
	if err == nil {
		a.faults.OK(dependency)
		return
	}
	a.faults.Fail(dependency, err)
}

// nameWaits gives tables that were not read yet the outages as the reason, where there are any.
func (h health) nameWaits(status *httpapi.Status) {
	for i := range status.Streams {
		shards := status.Streams[i].Shards
		for j := range shards {
			s := &shards[j]
			if s.State != shard.Starting || s.LastError != "" {
				continue
			}
			source := status.Source
			if len(status.Sources) > 0 {
				d, _ := h.sources.of(s.Shard)
				source = &status.Sources[slices.Index(h.sources.all, d)]
			}
			if away := namesAway(status, source); len(away) > 0 {
				s.Reason, s.Remedy = null.Text("the table was not read yet: it waits for "+strings.Join(away, "; and for ")), waitingRemedy
			}
		}
	}
}

// namesAway names what does not answer of a source and what all tables depend on, with the errors.
func namesAway(s *httpapi.Status, source *httpapi.DependencyStatus) (away []string) {
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", source}, {"the bus", s.Bus}, {"the checkpoint", s.Checkpoint}, {"the progress on the bus", s.Progress}} {
		if d := one.state; d != nil && d.Error != "" {
			away = append(away, one.name+": "+string(d.Error))
		}
	}
	return away
}
