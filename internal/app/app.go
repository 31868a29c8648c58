package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
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

	// openStore defaults to OpenStore; tests have another one.
	openStore func(context.Context, string, *slog.Logger) (store.Store, error)
	// inside says that the app is one inside a command, dry that this one changes nothing: it has
	// no bus, its store is only read, and it is not to Run.
	inside, dry bool
	// former is what the app before it in a Process leaves; nil for the first one.
	former *legacy
}

// legacy is what an app that a reload ends leaves to the next one.
type legacy struct {
	*kept
	// busy are the shards that had rows lately: they begin before the others.
	busy map[store.Key]bool
	// superseded is why another process publishes the same streams: none of these goes on.
	superseded error
	// published has the destinations of the streams that it has published.
	published map[string][]string
	carried
}

// carried is what goes on beyond an app where only the tables of patterns are others: a stream that
// has stopped stays so, and what was counted goes on.
type carried struct {
	shards map[store.Key]shard.Left
	// limits and stopped are by stream.
	limits  map[string]*shard.DeadLetterLimit
	stopped map[string]error
}

func (a *App) legacy() *legacy {
	caught := a.recovery.Progress()
	l := &legacy{kept: a.kept, busy: make(map[store.Key]bool), superseded: caught.Superseded, published: make(map[string][]string)}
	l.carried = carried{make(map[store.Key]shard.Left), make(map[string]*shard.DeadLetterLimit), make(map[string]error)}
	for _, sh := range a.shards {
		// Those that have published rows in this minute or the one before.
		minutes := sh.FullStatus().Published.LastHour
		if slices.ContainsFunc(minutes[max(0, len(minutes)-2):], func(rows uint32) bool { return rows > 0 }) {
			l.busy[keyOf(sh)] = true
		}
		l.shards[keyOf(sh)] = sh.Leave()
	}
	for i, s := range a.streams {
		one := &caught.Streams[i]
		l.limits[s.Name], l.stopped[s.Name] = s.deadLetterLimit, one.Err
		if one.Ready && one.Err == nil {
			l.published[s.Name] = a.opts.Config.Destinations(s.Stream)
		}
	}
	return l
}

// Build is a version of bridge.
type Build struct{ Version, Revision, Go string }

// App reads tables, publishes events and reconciles. It does nothing until Run is called.
type App struct {
	parts
	*kept
	opts    Options
	streams []*appStream
	shards  []*shard.Shard
	// reconcilers has one for each of shards, in their order; scheduler runs them.
	reconcilers []reconcile.Scheduled
	scheduler   *reconcile.Scheduler
	registry    *prometheus.Registry
	// sinkProbe asks whether the sink can be reached.
	sinkProbe *httpapi.Probe
	// entities is nil unless entities are to be shown.
	entities *entities
	// leftOut says by stream which of the tables that match its patterns is not published.
	leftOut atomic.Pointer[map[string]leftOut]
	// pauses is held by the one request to pause or resume that is under way.
	pauses chan struct{}
	// started is when it was opened.
	started time.Time
	// closers are closed last to first.
	closers []func() error
}

// kept is what the apps of a process share, one after the other: a reload leaves it open.
type kept struct {
	disk store.Store
	// member is nil where the process works alone. superseded has at most one error: another one
	// publishes the same streams.
	member     *standby.Member
	superseded chan error
	// windows are those that sinks have warned of. inspected has the databases and tables whose
	// findings are in the log since the configuration was read; others has the findings about the
	// checkpoint that are there.
	windows, inspected, others sync.Map
	// changes are those of the tables of patterns. The app that runs uses it.
	changes changes
	// lacks says by stream what was last warned of its tables. The app that runs uses it.
	lacks map[string]string
	// listeners listen to the events of all apps.
	listeners tap.Tap
	// swap is what health has to know of a reload.
	swap swap
	// now is the app that runs; before it does, the one before.
	now atomic.Pointer[App]
	// closers are closed last to first.
	closing []func() error
}

// openKept opens the store, and takes part in the standby group once that is run.
func openKept(ctx context.Context, o *Options) (_ *kept, err error) {
	k := &kept{superseded: make(chan error, 1), lacks: make(map[string]string)}
	if err := MakeFolder(o.Config); err != nil {
		return nil, err
	}
	if k.disk, err = o.openStore(ctx, o.Config.CheckpointPath, o.Logger); err != nil {
		return nil, err
	}
	k.closing = append(k.closing, k.disk.Close)
	if err := k.openStandby(o.Config, o.Logger); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *kept) close() error { return closeAll(k.closing) }

func closeAll(closers []func() error) error {
	var errs []error
	for _, one := range slices.Backward(closers) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}

// Open opens source, store and sink and makes the shards of the configuration. ctx is only for
// opening the store.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	switch {
	case o.dry:
		o.openStore = openReadOnly
	case o.openStore == nil:
		o.openStore = OpenStore
	}
	o.Config = config.OfShare(o.Config)
	first := o.former == nil
	if first {
		o.former = new(legacy)
	}
	a := &App{opts: o, kept: o.former.kept, registry: prometheus.NewRegistry(), pauses: make(chan struct{}, 1)}
	a.logger = o.Logger
	defer func() {
		if err == nil {
			// Not to keep all apps of the past.
			a.opts.former = nil
			return
		}
		if err = errors.Join(err, a.closeInside()); first && a.kept != nil {
			err = errors.Join(err, a.kept.close())
		}
	}()
	if o.Config.HasPatterns() && !o.dry {
		if a.kept == nil {
			if a.kept, err = openKept(ctx, &a.opts); err != nil {
				return nil, err
			}
		}
		if a.opts.Config, err = a.withTables(ctx, o.Config); err != nil {
			return nil, err
		}
	}
	cfg := a.opts.Config
	registry := prometheus.Registerer(a.registry)
	if cfg.Share.One() {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"share": strconv.Itoa(cfg.Share.Index)}, registry)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.faults, a.metrics = outage.New(o.Logger), shard.NewMetrics(registry, cfg.MetricsByShard)
	a.queue, a.carried = queue{o.former.busy, make(map[*database]chan store.Key)}, o.former.carried
	if err := a.openTracer(); err != nil {
		return nil, err
	}
	if err := a.openEnds(ctx); err != nil {
		return nil, err
	}
	if a.streams, err = newStreams(cfg, &a.parts); err != nil {
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
	registerMetrics(registry, a)
	if a.entities, err = newEntities(cfg, &a.parts, a.streams); err != nil {
		return nil, err
	}
	a.started, a.carried = time.Now(), carried{}
	a.now.Store(a)
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
	if a.kept == nil {
		if a.kept, err = openKept(ctx, &a.opts); err != nil {
			return err
		}
	}
	a.tap, a.store = &a.listeners, a.disk
	if a.image, err = a.disk.Load(ctx); err != nil {
		return err
	}
	a.committer = stream.NewCommitter(a.disk, a.image, a.faults)
	if a.opts.dry {
		return nil
	}
	u := useOf(cfg, a.logger)
	u.Fault, u.Windows = a.metrics.Retry, &a.windows
	// A session begins with a publish, which is behind Open.
	u.Session = func(tp string) { a.recovery.NewSession(tp) }
	bus, err := cfg.Sink.Driver.Open(u)
	if err != nil {
		return err
	}
	a.sink, a.closers = bus, append(a.closers, bus.Close)
	a.reader, _ = bus.(sink.Reader)
	a.sinkProbe = &httpapi.Probe{Ready: bus.Ready}
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

// Close closes sink, source and store.
func (a *App) Close() error {
	if a.generations != nil {
		a.generations.Leave()
	}
	return errors.Join(a.closeInside(), a.kept.close())
}

// closeInside closes what the next app of the process opens again.
func (a *App) closeInside() error {
	err := closeAll(a.closers)
	// A reload that opens no app leaves one that is closed.
	a.closers = nil
	if a.faults != nil {
		a.faults.Close()
	}
	return err
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

func setGCPercent() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}

// lockWait is how long a store may be in use by somebody who only looks into it.
const lockWait = time.Second

func openReadOnly(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	return opened(pebble.OpenReadOnly(ctx, path, pebble.Options{LockWait: lockWait, Log: log}))
}

// OpenStore opens the store in the folder at path, and makes it where there is none. One that
// cannot be used is set aside: the new one catches up from the bus.
func OpenStore(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	return opened(pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log}))
}

// opened returns no store beside an error: a nil pointer in an interface is not nil.
func opened(s *pebble.Store, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
