package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
)

// restPolls bounds how often a second tables are polled that have had nothing new for a while.
const restPolls = 1000

// Run runs the app until ctx is cancelled, then publishes and saves the batches in flight within
// the shutdown timeout. An error means that the shutdown was not orderly.
func (a *App) Run(ctx context.Context) error {
	if !a.opts.Serve {
		return a.run(ctx, a.scheduler.Run)
	}
	cfg, logger := a.opts.Config, a.logger
	checkpoint, err := filepath.Abs(cfg.CheckpointPath)
	if err != nil {
		checkpoint = cfg.CheckpointPath
	}
	args := []any{"version", a.opts.Build.Version, "streams", len(cfg.Streams), "shards", len(a.shards),
		"source", a.sources.addrs(), "sink", cfg.Sink.Scheme, "delivery", cfg.Sink.Delivery(), "checkpoint", checkpoint, "http", a.server.Addr().String()}
	if cfg.CheckpointTopic != "" {
		args = append(args, "progress", cfg.CheckpointTopic)
	}
	if a.member != nil {
		args = append(args, "standby", cfg.Standby.Group, "member", a.member.Status().Member)
	}
	logger.Info("bridge runs", args...)
	defer logger.Info("bridge ended")
	logged := make(chan struct{})
	notLogged := context.AfterFunc(ctx, func() {
		defer close(logged)
		logger.Info("stopping, Ctrl-C again stops at once, nothing is lost", "timeout", cfg.ShutdownTimeout)
	})
	defer func() {
		if !notLogged() {
			<-logged
		}
	}()
	defer collectOften()()
	looking, stopLooking := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() {
		awaitStart(looking, a.shards)
		a.sources.each(func(d *database) error { logFindings(looking, cfg, d, a.sources, logger); return nil })
	})
	defer looks.Wait()
	defer stopLooking()
	return a.serve(ctx)
}

// serve runs the shards and the reconciles until ctx is cancelled, and the HTTP server for as long
// as a shard runs.
func (a *App) serve(ctx context.Context) error {
	pages, closePages := context.WithCancel(context.WithoutCancel(ctx))
	defer closePages()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var http errgroup.Group
	http.Go(func() error {
		err := a.server.Run(pages)
		if err != nil {
			fail(err)
		}
		return err
	})
	err := a.run(running, a.scheduler.Run)
	closePages()
	if err := errors.Join(err, http.Wait()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// run tails all tables, and runs the function beside, until ctx is cancelled; beside must end with
// its context. Then the shards publish what is in flight, while catch-up goes on, what was applied
// is made durable, and a standby may work. If anything returns an error, the process has to be
// restarted: run then shuts down the others in order.
func (a *App) run(ctx context.Context, beside func(context.Context) error) error {
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
	var tailing, recovering, saving, electing errgroup.Group
	later := context.WithoutCancel(ctx)
	elects, endElecting := context.WithCancel(later)
	defer endElecting()
	start(elects, &electing, a.elect)
	saves, endSaving := context.WithCancel(later)
	defer endSaving()
	start(saves, &saving, a.committer.Run)
	if a.copies != nil {
		start(saves, &saving, a.copies.Run)
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
	start(running, &tailing, beside)
	err := tailing.Wait()
	endRecovering()
	err = errors.Join(err, recovering.Wait())
	endSaving()
	err = errors.Join(err, saving.Wait())
	// Another process may work from here on.
	endElecting()
	return errors.Join(err, electing.Wait())
}

// catchUp reads what the bus holds. What it has read stays when ctx ends first.
func (a *App) catchUp(ctx context.Context) error {
	err := a.recovery.Start(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// openHTTP binds the port of the HTTP server. The error names the variable.
func openHTTP(ctx context.Context, cfg *config.Config, d httpapi.Daemon, metrics prometheus.Gatherer, logger *slog.Logger) (*httpapi.Server, error) {
	server, err := httpapi.Open(ctx, httpapi.Options{Addr: cfg.HTTPAddr, Daemon: d, Metrics: metrics, Access: accessOf(cfg), Logger: logger})
	switch {
	case errors.Is(err, httpapi.ErrPortTaken):
		return nil, fmt.Errorf("%w: end it, or set %s to another one", err, config.HTTPVariable)
	case err != nil:
		return nil, fmt.Errorf("%w: see %s", err, config.HTTPVariable)
	}
	return server, nil
}

// accessOf returns who may request changes and read rows.
func accessOf(cfg *config.Config) httpapi.Access {
	return httpapi.Access{Token: cfg.HTTPToken, Setting: config.HTTPTokenVariable, Text: config.Text, TLS: httpapi.TLS(cfg.HTTPTLS)}
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

// busOutages returns what the sink reports itself.
func (a *App) busOutages() []outage.Outage {
	if bus, ok := a.sink.(interface{ Outages() []outage.Outage }); ok {
		return bus.Outages()
	}
	return nil
}

// nameWaits gives tables that were not read yet the outages as the reason, where there are any.
func (h health) nameWaits(status *httpapi.Status) {
	if len(status.Sources) == 0 {
		nameWaits(status, status.Source, func(string) bool { return true })
		return
	}
	for i := range status.Sources {
		nameWaits(status, &status.Sources[i], func(table string) bool {
			d, _ := h.sources.of(table)
			return d.Name == status.Sources[i].Name
		})
	}
}

// nameWaits is that for the tables of a source.
func nameWaits(status *httpapi.Status, source *httpapi.DependencyStatus, ofSource func(table string) bool) {
	var away []string
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", source}, {"the bus", status.Bus}, {"the checkpoint", status.Checkpoint}, {"the progress on the bus", status.Progress}} {
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
			if s := &shards[j]; s.State == string(shard.Starting) && s.LastError == nil && ofSource(s.Shard) {
				s.Reason, s.Remedy = httpapi.Given(reason), httpapi.Given(waitingRemedy)
			}
		}
	}
}
