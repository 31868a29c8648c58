package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/shard"
	"example.org/bridge/source"
)

// Process runs an app and serves HTTP. A reload ends the app as a shutdown does, and runs another
// one with the new configuration: the HTTP server, the checkpoint and the membership in the standby
// group stay as they are.
type Process struct {
	*kept
	opts   ProcessOptions
	server *httpapi.Server
	// reloading is held by the one reload that is under way; reloads takes what it has read.
	reloading chan struct{}
	reloads   chan reload
	// latest is the configuration in force, with limits that were reloaded; opening guards it, and
	// is held while an app is opened with it.
	opening sync.Mutex
	latest  *config.Config
	// ended is closed when no reload is taken any more.
	ended chan struct{}
}

// ProcessOptions configure a Process.
type ProcessOptions struct {
	Config *config.Config
	Logger *slog.Logger
	Build  Build
	// Load reads the configuration again.
	Load func() (*config.Config, error)
	// Others sets the variables of other programs that a configuration has. Optional.
	Others func([]string) error
	// Level is set to that of the configuration. Optional.
	Level *slog.LevelVar
}

// reload is a configuration that is to replace the one in force, nil for that one again. done has
// the error with which that failed, nil if it did not.
type reload struct {
	cfg  *config.Config
	done chan error
	// tables says that it is the one in force, and the tables of its patterns are others.
	tables bool
}

// OpenProcess opens the first app, and binds the port of the HTTP server. ctx is only for opening.
func OpenProcess(ctx context.Context, o ProcessOptions) (*Process, error) {
	p := &Process{opts: o, latest: o.Config, reloading: make(chan struct{}, 1), reloads: make(chan reload), ended: make(chan struct{})}
	a, err := p.open(ctx, o.Config, nil)
	if err != nil {
		return nil, err
	}
	p.kept = a.kept
	if p.server, err = p.openHTTP(ctx, o.Config); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if p.member != nil {
		p.member.Listens(advertised(ctx, p.server.Addr(), o.Config.Sink.Servers), o.Config.HTTPTLS.Cert != "")
	}
	return p, nil
}

// open opens an app, the one after former where that is not nil.
func (p *Process) open(ctx context.Context, cfg *config.Config, former *legacy) (*App, error) {
	for _, w := range cfg.Warnings {
		p.opts.Logger.Warn("warning about the configuration", "variable", w.Variable, "warning", w.Text)
	}
	if p.opts.Level != nil {
		p.opts.Level.Set(cfg.LogLevel)
	}
	if p.opts.Others != nil {
		if err := p.opts.Others(cfg.Others); err != nil {
			return nil, err
		}
	}
	a, err := Open(ctx, Options{Config: cfg, Logger: p.opts.Logger, Build: p.opts.Build, former: former})
	if err == nil {
		a.logOthers(cfg)
	}
	return a, err
}

// openHTTP binds the port of the HTTP server. The error names the variable.
func (p *Process) openHTTP(ctx context.Context, cfg *config.Config) (*httpapi.Server, error) {
	metrics := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return p.now.Load().registry.Gather() })
	access := httpapi.Access{Setting: config.HTTPTokenVariable, Text: config.Text, TLS: cfg.HTTPTLS}
	if cfg.HTTPToken != nil {
		access.Token = p.token
	}
	server, err := httpapi.Open(ctx, httpapi.Options{
		Addr: cfg.HTTPAddr, Daemon: p.Daemon, Reload: p.Reload, Metrics: metrics, Access: access, Logger: p.opts.Logger,
	})
	switch {
	case errors.Is(err, httpapi.ErrPortTaken):
		return nil, fmt.Errorf("%w: end it, or set %s to another one", err, config.HTTPVariable)
	case err != nil:
		return nil, fmt.Errorf("%w: see %s", err, config.HTTPVariable)
	}
	return server, nil
}

// token is that of HTTP: a reload may name a file that has it.
func (p *Process) token() (string, error) {
	if now := p.now.Load().opts.Config.HTTPToken; now != nil {
		return now()
	}
	return p.opts.Config.HTTPToken()
}

// Daemon returns what the HTTP server shows now: the app that runs.
func (p *Process) Daemon() httpapi.Daemon { return p.now.Load().Daemon() }

// Close closes sink, source and store.
func (p *Process) Close() error { return p.now.Load().Close() }

// Run runs the process until ctx is cancelled. Then it publishes and saves the batches in flight
// within the shutdown timeout, while HTTP still answers. An error means that the shutdown was not
// orderly.
func (p *Process) Run(ctx context.Context) error {
	cfg, logger := p.opts.Config, p.opts.Logger
	checkpoint, err := filepath.Abs(cfg.CheckpointPath)
	if err != nil {
		checkpoint = cfg.CheckpointPath
	}
	var from []string
	for _, d := range p.now.Load().sources.all {
		from = append(from, d.Addr)
	}
	args := []any{"version", p.opts.Build.Version, "streams", len(p.now.Load().streams), "shards", len(p.now.Load().shards),
		"source", strings.Join(from, ","), "sink", cfg.Sink.Scheme, "delivery", cfg.Sink.Delivery(), "checkpoint", checkpoint, "http", p.server.Addr().String()}
	if cfg.CheckpointTopic != "" {
		args = append(args, "progress", cfg.CheckpointTopic)
	}
	if cfg.Share.One() {
		args = append(args, "share", cfg.Share.String())
	}
	if p.member != nil {
		args = append(args, "standby", cfg.Standby.Group, "member", p.member.Status().Member)
	}
	logger.Info("bridge runs", args...)
	defer logger.Info("bridge ended")
	logged := make(chan struct{})
	notLogged := context.AfterFunc(ctx, func() {
		defer close(logged)
		logger.Info("stopping, Ctrl-C again stops at once, nothing is lost", "timeout", p.now.Load().opts.Config.ShutdownTimeout)
	})
	defer func() {
		if !notLogged() {
			<-logged
		}
	}()
	defer setGCPercent()()
	return p.serve(ctx)
}

// serve runs the apps until ctx is cancelled, and the HTTP server for as long as a shard runs.
func (p *Process) serve(ctx context.Context) error {
	pages, closePages := context.WithCancel(context.WithoutCancel(ctx))
	defer closePages()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var http errgroup.Group
	http.Go(func() error {
		err := p.server.Run(pages)
		if err != nil {
			fail(err)
		}
		return err
	})
	err := p.elected(running, p.runApps)
	closePages()
	if err := errors.Join(err, http.Wait()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func (p *Process) runApps(ctx context.Context) error {
	defer close(p.ended)
	for {
		next, err := p.runApp(ctx, p.now.Load())
		if next == nil {
			return err
		}
		switch {
		case err == nil && ctx.Err() != nil:
			next.done <- errStopping
			return nil
		case err == nil:
			err = p.replace(ctx, next)
		}
		if next.tables && errors.Is(err, errFormer) {
			p.opts.Logger.Error("the tables that match patterns now are not published yet, bridge looks again", "error", config.Text(err))
		}
		if next.done <- err; err != nil && !errors.Is(err, errFormer) {
			return err
		}
	}
}

// runApp runs an app until ctx ends, or until the reload that it returns.
func (p *Process) runApp(ctx context.Context, a *App) (next *reload, err error) {
	working, end := context.WithCancel(ctx)
	defer end()
	var group errgroup.Group
	group.Go(func() error {
		defer end()
		return a.work(working, a.scheduler.Run)
	})
	group.Go(func() error {
		starts := func(s *shard.Shard) bool { return s.Status().State == shard.Starting }
		pause := backoff.Backoff{Max: 100 * time.Millisecond}
		for began := time.Now(); time.Since(began) < startsWithin && slices.ContainsFunc(a.shards, starts); {
			if pause.Wait(working) != nil {
				return nil
			}
		}
		a.sources.each(func(d *database) error {
			logFindings(working, a.opts.Config, d, a.sources.Shard, &a.inspected, a.logger)
			return nil
		})
		return nil
	})
	reopenOnce := func(await func(context.Context) bool, tables bool) {
		group.Go(func() error {
			if await(working) {
				select {
				case p.reloads <- reload{nil, make(chan error, 1), tables}:
				case <-working.Done():
				}
			}
			return nil
		})
	}
	reopenOnce(a.awaitTables, true)
	reopenOnce(a.awaitReadable, false)
	select {
	case <-working.Done():
	case one := <-p.reloads:
		next = &one
		p.swap.begin(a)
		end()
	}
	return next, group.Wait()
}

// errStopping is returned by a reload that a shutdown comes before.
var errStopping = errors.New("bridge is stopping")

// errFormer is returned by a reload that has failed behind the end of the app: the former
// configuration is in force again.
var errFormer = errors.New("the former configuration goes on")

// replace closes the app that has ended, and opens another one: where that fails, the former one
// again, for as long as it takes, as when a disk is full. Until then next is answered, and may be
// another reload that comes; or ctx ends.
func (p *Process) replace(ctx context.Context, next *reload) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	former, cfg := p.now.Load(), cmp.Or(next.cfg, p.latest)
	left := former.legacy()
	open := func(cfg *config.Config, goesOn bool) error {
		one := *left
		if !goesOn {
			one.carried = carried{}
			p.inspected.Clear()
		}
		// A signal that comes meanwhile ends that in order.
		_, err := p.open(context.WithoutCancel(ctx), cfg, &one)
		return err
	}
	if err := former.closeInside(); err != nil {
		p.opts.Logger.Warn("not all was closed in order for the reload", "error", err)
	}
	err := open(cfg, next.tables)
	for pause := (backoff.Backoff{Max: 5 * time.Second}); err != nil; {
		failed := open(p.latest, true)
		if failed == nil {
			cfg, err = p.latest, fmt.Errorf("%w: %s", errFormer, config.Text(err))
			break
		}
		p.opts.Logger.Error("the former configuration cannot be opened, bridge tries again", "error", config.Text(failed))
		p.swap.retry(failed)
		if p.member != nil {
			// Another process of a standby group may work.
			return errors.Join(err, failed)
		}
		if next.cfg != nil {
			next.done <- fmt.Errorf("%w once it can be opened: %s", errFormer, config.Text(err))
			*next = reload{done: make(chan error, 1)}
		}
		p.opening.Unlock()
		select {
		case *next = <-p.reloads:
		case <-time.After(pause.Next()):
		case <-ctx.Done():
		}
		p.opening.Lock()
		switch {
		case next.cfg != nil:
			cfg = next.cfg
			err = open(cfg, false)
		case ctx.Err() != nil:
			return errors.Join(err, failed)
		}
	}
	p.latest = cfg
	if p.member != nil {
		p.member.Agree(cfg.Standby.Settings)
	}
	p.swap.end()
	return err
}

// limit has the limits of next hold at once, and reports whether nothing else of it is new: then
// all goes on as it is.
func (p *Process) limit(next *config.Config) bool {
	p.opening.Lock()
	defer p.opening.Unlock()
	if _, _, failed := p.swap.under(); failed != nil || !p.latest.ChangesLimitsAlone(next) {
		return false
	}
	p.latest = next
	a := p.now.Load()
	for i, d := range a.sources.all {
		conns, tails := connsOf(next, &next.Sources[i])
		if resizer, able := d.from.(source.Resizer); able {
			resizer.Resize(conns)
			d.limits.SetReads(tails)
		}
	}
	for _, s := range a.streams {
		// next has the streams of all shares.
		s.rate.Set(next.Stream(s.Name).Rate)
	}
	return true
}

// Reload reads the configuration again, and has it replace the one in force. The error
// says why the one in force goes on: it is a *config.Error where the new one is wrong, or needs a
// restart. It goes on where ctx ends.
func (p *Process) Reload(ctx context.Context) (done httpapi.Reloaded, err error) {
	release, err := backoff.Acquire(ctx, p.reloading)
	if err != nil {
		return done, err
	}
	ended := make(chan error, 1)
	var reloaded httpapi.Reloaded
	go func() {
		defer release()
		ended <- panics.Guard(func() (err error) {
			reloaded, err = p.reload()
			return err
		})
	}()
	select {
	case err := <-ended:
		return reloaded, err
	case <-ctx.Done():
		return done, context.Cause(ctx)
	}
}

func (p *Process) reload() (httpapi.Reloaded, error) {
	began, now := time.Now(), p.now.Load()
	next, err := p.opts.Load()
	if err == nil {
		next, err = now.opts.Config.Reloaded(next)
	}
	if by := now.recovery.Progress().Superseded; by != nil {
		err = fmt.Errorf("a reload does not take over from another bridge: end one of the two, and restart the one that is to go on: %w", by)
	}
	if err != nil {
		p.opts.Logger.Error("the configuration was not reloaded, the former one goes on", "error", config.Text(err))
		return httpapi.Reloaded{}, err
	}
	reloaded := func() httpapi.Reloaded {
		return httpapi.Reloaded{Streams: next.StreamNames(), Shards: countTables(p.now.Load().opts.Config), Milliseconds: int(time.Since(began).Milliseconds())}
	}
	if p.limit(next) {
		p.opts.Logger.Info("limits reloaded, the streams go on")
		return reloaded(), nil
	}
	one := reload{next, make(chan error, 1), false}
	select {
	case p.reloads <- one:
	case <-p.ended:
		return httpapi.Reloaded{}, errStopping
	}
	switch err := <-one.done; {
	case errors.Is(err, errStopping):
		return httpapi.Reloaded{}, err
	case err != nil:
		p.opts.Logger.Error("the configuration was not reloaded, the former one goes on", "error", config.Text(err))
		return httpapi.Reloaded{}, err
	}
	done := reloaded()
	p.opts.Logger.Info("configuration reloaded", "streams", len(done.Streams), "shards", done.Shards, "took", time.Since(began).Round(time.Millisecond))
	return done, nil
}

// swap tells health about a reload. It is safe for concurrent use.
type swap struct {
	mu sync.Mutex
	// began is when the app that runs was told to end, zero while no reload is under way; tried is
	// when an app was last opened in vain since, failed why. ended is when the new one was there.
	began, tried, ended time.Time
	failed              error
	// wasReady is what the former one was.
	wasReady bool
}

// graceAfter is how long a reload, and after it a table that was not read yet, does not make a
// process unready that was ready.
const graceAfter = time.Minute

func (s *swap) begin(a *App) {
	ready := len(health{a}.reasons(make([]error, len(a.sources.all)), nil, false)) == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.wasReady = time.Now(), ready || s.wasReady && time.Since(s.ended) < graceAfter
}

func (s *swap) retry(failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.failed = time.Now(), failed
}

func (s *swap) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.tried, s.ended, s.failed = time.Time{}, time.Time{}, time.Now(), nil
}

// under returns for how long a reload has shown no sign of life, 0 while none is under way, and why
// no app could be opened. starting says that a process that was ready counts as ready, for a while,
// until its tables are read once.
func (s *swap) under() (since time.Duration, starting bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.ended
	if !s.began.IsZero() {
		last, since = s.began, min(time.Since(s.began), time.Since(s.tried))
	}
	return since, s.wasReady && time.Since(last) < graceAfter, s.failed
}
