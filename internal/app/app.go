package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink/embedded"
)

// Options configure an App.
type Options struct {
	Config *config.Config
	Logger *slog.Logger
	// Build is shown in the log and in a metric.
	Build Build
	// Serve makes Run serve HTTP at the configured address and log findings about the source.
	Serve bool
	// OpenStore opens the checkpoint. Defaults to the function OpenStore.
	OpenStore func(path string) (Store, error)
}

// Build is a version of bridge.
type Build struct{ Version, Revision, Go string }

// App reads tables, publishes events and reconciles. It does nothing until Run is called.
type App struct {
	parts
	opts   Options
	shards []*shard.Shard
	// recalls catches up from the bus; nil if the bus cannot be read.
	recalls *shard.Recalls
	// reconcilers has one for each of shards, in their order; scheduler runs them.
	reconcilers []reconcile.Scheduled
	scheduler   *reconcile.Scheduler
	registry    *prometheus.Registry
	health      *health
	// server is nil without Options.Serve.
	server *httpapi.Server
	// closers are closed last to first.
	closers []func() error
}

// Open opens source, checkpoint and sink and makes the shards of the configuration. ctx is only for
// binding the port.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	if o.OpenStore == nil {
		o.OpenStore = OpenStore
	}
	a := &App{opts: o, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	cfg := o.Config
	if o.Serve {
		for _, w := range cfg.Warnings {
			o.Logger.Warn(w.Text, "variable", w.Variable)
		}
	}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.parts = newParts(cfg, a.registry, o.Logger)
	if err := a.openEnds(); err != nil {
		return nil, err
	}
	if a.shards, err = newShards(cfg, a.parts); err != nil {
		return nil, err
	}
	if a.recalls, err = shard.NewRecalls(context.Background(), a.sink, a.store, a.shards); err != nil {
		return nil, err
	}
	if a.reconcilers, err = newReconcilers(cfg, a.parts, a.shards); err != nil {
		return nil, err
	}
	a.scheduler = reconcile.NewScheduler(o.Logger, a.reconcilers...)
	if a.recalls != nil {
		a.recalls.Then(func(stream string) { a.scheduler.Request(stream, reconcile.Mode{}) })
	}
	registerMetrics(a.registry, a.shards, a.limits, a.reconcilers, o.Build)
	a.health = &health{
		cfg: cfg, shards: a.shards, faults: a.faults, source: &httpapi.Probe{Ready: a.source.Ready}, sink: &httpapi.Probe{Ready: a.sink.Ready},
		reconcilers: a.reconcilers, scheduler: a.scheduler, started: time.Now(),
	}
	if o.Serve {
		a.server, err = openHTTP(ctx, cfg, a.health, a.registry, o.Logger)
	}
	return a, err
}

// openEnds opens source, checkpoint and sink, in that order.
func (a *App) openEnds() error {
	cfg := a.opts.Config
	src, err := OpenSource(cfg, a.logger)
	if err != nil {
		return err
	}
	a.source, a.closers = src, append(a.closers, src.Close)
	kept, err := a.opts.OpenStore(cfg.CheckpointPath)
	if err != nil {
		return err
	}
	a.store, a.closers = kept, append(a.closers, kept.Close)
	bus, err := openSink(cfg, a.logger, a.metrics.Retry)
	if err != nil {
		return err
	}
	a.sink, a.closers = bus, append(a.closers, bus.Close)
	return nil
}

// Close closes sink, checkpoint and source, in that order.
func (a *App) Close() error {
	var errs []error
	for _, one := range slices.Backward(a.closers) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}

// Daemon returns what the HTTP server shows.
func (a *App) Daemon() httpapi.Daemon { return a.health }

// Metrics returns the metrics of /metrics.
func (a *App) Metrics() prometheus.Gatherer { return a.registry }

// NATSURL returns the URL of the server of embedded:, empty if others cannot reach it.
func (a *App) NATSURL() string {
	if s, ok := a.sink.(*embedded.Sink); ok {
		return embeddedURL(s)
	}
	return ""
}
