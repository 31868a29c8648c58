package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/tracing"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
)

// Options configure an App.
type Options struct {
	Config *config.Config
	Logger *slog.Logger
	// Build is shown in the log and in a metric.
	Build Build
	// Serve makes Run serve HTTP at the configured address and log findings about the source.
	Serve bool

	// openStore defaults to OpenStore; tests have another one.
	openStore func(context.Context, string, *slog.Logger) (store.Store, error)
}

// Build is a version of bridge.
type Build struct{ Version, Revision, Go string }

// App reads tables, publishes events and reconciles. It does nothing until Run is called.
type App struct {
	parts
	opts    Options
	streams []*stream
	shards  []*shard.Shard
	// reconcilers has one for each of shards, in their order; scheduler runs them.
	reconcilers []reconcile.Scheduled
	scheduler   *reconcile.Scheduler
	registry    *prometheus.Registry
	// sinkProbe asks whether the sink can be reached.
	sinkProbe *httpapi.Probe
	// entities is nil unless entities are to be shown.
	entities *entities
	// started is when the process began.
	started time.Time
	// member is nil where the process works alone. superseded has at most one error: another one
	// publishes the same streams.
	member     *standby.Member
	superseded chan error
	// server is nil without Options.Serve.
	server *httpapi.Server
	// closers are closed last to first.
	closers []func() error
}

// Open opens source, store and sink and makes the shards of the configuration. ctx is only for
// opening the store and binding the port.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	if o.openStore == nil {
		o.openStore = OpenStore
	}
	a := &App{opts: o, registry: prometheus.NewRegistry(), superseded: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	cfg := o.Config
	if o.Serve {
		for _, w := range cfg.Warnings {
			o.Logger.Warn("warning about the configuration", "variable", w.Variable, "warning", w.Text)
		}
	}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.parts = newParts(cfg, a.registry, o.Logger)
	if err := a.openTracer(); err != nil {
		return nil, err
	}
	if err := a.openEnds(ctx); err != nil {
		return nil, err
	}
	if a.streams, err = newStreams(cfg, &a.parts); err != nil {
		return nil, err
	}
	if err := a.openStandby(); err != nil {
		return nil, err
	}
	if err := a.openCopies(); err != nil {
		return nil, err
	}
	a.recovery = a.newRecovery()
	if a.shards, err = newShards(cfg, &a.parts, a.streams); err != nil {
		return nil, err
	}
	a.reconcilers = newReconcilers(cfg, &a.parts, a.streams, a.shards)
	a.scheduler = reconcile.NewScheduler(o.Logger, a.reconcilers...)
	registerMetrics(a.registry, a)
	if a.entities, err = newEntities(cfg, &a.parts, a.streams); err != nil {
		return nil, err
	}
	a.sinkProbe, a.started = &httpapi.Probe{Ready: a.sink.Ready}, time.Now()
	if o.Serve {
		if a.server, err = openHTTP(ctx, cfg, a.Daemon(), a.registry, o.Logger); err != nil {
			return nil, err
		}
		if a.member != nil {
			a.member.Listens(advertised(ctx, a.server.Addr(), cfg.Sink.Servers), cfg.HTTPTLS.Cert != "")
		}
	}
	return a, nil
}

// openEnds opens source, store and sink, in that order.
func (a *App) openEnds(ctx context.Context) error {
	cfg := a.opts.Config
	src, err := OpenSources(cfg, a.logger)
	if err != nil {
		return err
	}
	a.sources, a.closers = src, append(a.closers, src.Close)
	src.gated = len(src.all) > 1
	kept, err := a.opts.openStore(ctx, cfg.CheckpointPath, a.logger)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, kept.Close)
	if err := a.use(ctx, kept); err != nil {
		return err
	}
	u := useOf(cfg, a.logger)
	u.Fault = a.metrics.Retry
	// A session begins with a publish, which is behind Open.
	u.Session = func(tp string) { a.recovery.NewSession(tp) }
	bus, err := cfg.Sink.Driver.Open(u)
	if err != nil {
		return err
	}
	a.sink, a.closers = bus, append(a.closers, bus.Close)
	a.reader, _ = bus.(sink.Reader)
	return nil
}

// openTracer makes the tracer, where bridge traces. It is closed last.
func (a *App) openTracer() error {
	t := a.opts.Config.Trace
	if t == nil {
		return nil
	}
	o := tracing.Options{Endpoint: t.Endpoint, Headers: t.Headers, Timeout: t.Timeout, Version: a.opts.Build.Version, Logger: a.logger}
	if t.TLS.Given() {
		o.TLS = t.TLS.Config()
	}
	tracer, err := tracing.New(o)
	if err != nil {
		return err
	}
	a.tracer, a.closers = tracer, append(a.closers, tracer.Close)
	return nil
}

// Close closes sink, store and source, in that order.
func (a *App) Close() error {
	var errs []error
	for _, one := range slices.Backward(a.closers) {
		errs = append(errs, one())
	}
	if a.faults != nil {
		a.faults.Close()
	}
	return errors.Join(errs...)
}

// Daemon returns what the HTTP server shows.
func (a *App) Daemon() httpapi.Daemon { return health{a} }

// Metrics returns the metrics of /metrics.
func (a *App) Metrics() prometheus.Gatherer { return a.registry }

// NATSURL returns the URL of the server of embedded:, empty if others cannot reach it.
func (a *App) NATSURL() string {
	if server, ok := a.sink.(interface{ Addr() net.Addr }); ok && server.Addr() != nil {
		return "nats://" + server.Addr().String()
	}
	return ""
}

// gcPercent is GOGC: the heap grows to one and a half times what lives, in place of twice by
// default. Most of what lives is memory without pointers, such as that of the store and of batches,
// so to collect more often costs next to nothing.
const gcPercent = 50

// collectOften sets gcPercent unless the environment sets GOGC or GOMEMLIMIT, and returns a
// function that undoes it.
func collectOften() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}

// lockWait is how long a store may be in use by somebody who only looks into it.
const lockWait = time.Second

// OpenStore opens the store in the folder at path, and makes it where there is none. One that
// cannot be used is set aside: the new one catches up from the bus.
func OpenStore(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		// Not s: a nil pointer in an interface is not nil.
		return nil, err
	}
	return s, nil
}
