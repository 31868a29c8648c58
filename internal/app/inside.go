package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

// Inside is a bridge that a command runs inside itself where it finds none to ask.
type Inside interface {
	// Working returns its status. A process that waits as a standby says where to type the command.
	Working(ctx context.Context) (httpapi.Status, error)
	// Reconcile requests what Begin begins: no reconcile that is due comes before it.
	Reconcile(ctx context.Context, stream string, mode reconcile.Mode) (httpapi.Accepted, error)
	Begin(ctx context.Context)
	Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error)
}

// InsideOptions say what a bridge inside a command is for.
type InsideOptions struct {
	// Config has the streams to work on.
	Config *config.Config
	Logger *slog.Logger
	// DryRun is for dry runs: the tables are compared with the checkpoint, without a tail and
	// without the bus, and nothing is changed. Kept refuses to begin without a checkpoint.
	DryRun, Kept bool
}

// RunInside calls do with a bridge inside this process, whose streams are tailed until do returns,
// and then ends it in order. It returns the status behind that: what was in flight is published.
func RunInside(ctx context.Context, o InsideOptions, do func(context.Context, Inside) error) (after httpapi.Status, err error) {
	cfg := o.Config
	_, missing := os.Stat(cfg.CheckpointPath)
	switch none := errors.Is(missing, fs.ErrNotExist); {
	case o.DryRun && cfg.Standby.Group != "":
		return after, option.Errorf("another process of the standby group (%s) may have published what the checkpoint at %s lacks: type a dry run where a process of the group runs",
			option.Standby, cfg.CheckpointPath)
	case none && (o.DryRun || o.Kept && cfg.CheckpointTopic == ""):
		return after, option.Errorf("there is no checkpoint at %s: what was published is not known; see to %s", cfg.CheckpointPath, option.CheckpointURL)
	case o.DryRun:
		return after, runDry(ctx, o, do)
	}
	app, err := Open(ctx, Options{Config: cfg, Logger: o.Logger, inside: true})
	if err != nil {
		return after, locked(cfg, err)
	}
	defer func() { err = errors.Join(err, app.Close()) }()
	running, end := context.WithCancel(ctx)
	defer end()
	err = app.run(running, func(ctx context.Context) error {
		// The shards publish and save what is in flight.
		defer end()
		ctx, stop := context.WithCancel(ctx)
		b := &tailing{health: health{app}}
		err := do(ctx, b)
		ended := ctx.Err()
		stop()
		b.comparing.Wait()
		if ended != nil {
			// What has ended the context tells why.
			return nil
		}
		return err
	})
	return app.Daemon().Status(), cmp.Or(err, ctx.Err())
}

// locked says what to do where another process has locked the store.
func locked(cfg *config.Config, err error) error {
	if !errors.Is(err, store.ErrLocked) {
		return err
	}
	return fmt.Errorf("%w: another process holds %s, and no bridge answers at %s: where that process is a bridge, set %s to the address on which it listens; else end it",
		store.ErrLocked, cfg.CheckpointPath, cfg.HTTPAddr, config.HTTPVariable)
}

// tailing is a bridge that publishes.
type tailing struct {
	health
	comparing sync.WaitGroup
}

// Working implements Inside. It names no address: the command would send the token there, and the
// bus alone tells it.
func (t *tailing) Working(context.Context) (httpapi.Status, error) {
	if s := t.waiting(); s != nil && s.Working != "" {
		return httpapi.Status{}, option.Errorf("%s works in the standby group of this configuration (%s): run the command where a process of the group runs, or with %s set to the address of one",
			worker(s), option.Standby, config.HTTPVariable)
	}
	return t.Status(), nil
}

// Reconcile implements Inside.
func (t *tailing) Reconcile(_ context.Context, stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	return t.health.Reconcile(stream, mode)
}

// Begin implements Inside.
func (t *tailing) Begin(ctx context.Context) {
	// It returns nil once all runs have ended.
	t.comparing.Go(func() { _ = t.scheduler.Run(ctx) })
}

// looking compares what is saved with the tables, one after the other. It publishes nothing.
type looking struct {
	status    httpapi.Status
	shards    []*shard.Shard
	all       []reconcile.Scheduled
	mode      reconcile.Mode
	comparing sync.WaitGroup
}

// Working implements Inside.
func (l *looking) Working(context.Context) (httpapi.Status, error) {
	rest := l.all
	for _, stream := range l.status.Streams {
		for i := range stream.Shards {
			s := rest[0].Status()
			if s.LastDryRun == nil {
				s.Waiting = 1
			}
			stream.Shards[i].Reconcile, rest = &s, rest[1:]
		}
	}
	return l.status, nil
}

// Reconcile implements Inside.
func (l *looking) Reconcile(_ context.Context, _ string, mode reconcile.Mode) (httpapi.Accepted, error) {
	mode.DryRun = true
	l.mode = mode
	return httpapi.Accepted{Started: l.status.Started}, nil
}

// Begin implements Inside.
func (l *looking) Begin(ctx context.Context) {
	l.comparing.Go(func() {
		for _, one := range l.all {
			// The status has the error.
			_, _ = one.Run(ctx, l.mode)
		}
	})
}

// Resend implements Inside.
func (l *looking) Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	for _, sh := range l.shards {
		if s := sh.Status(); s.Stream == request.Stream && s.Shard == request.Shard {
			return sh.Preview(ctx, request.DeadLetters)
		}
	}
	return nil, httpapi.ErrNoStream
}

// runDry calls do with a bridge that changes nothing.
func runDry(ctx context.Context, o InsideOptions, do func(context.Context, Inside) error) (err error) {
	cfg := config.OfShare(o.Config)
	p := newParts(cfg, prometheus.NewRegistry(), o.Logger)
	if p.sources, err = OpenSources(cfg, o.Logger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.sources.Close()) }()
	kept, err := pebble.OpenReadOnly(ctx, cfg.CheckpointPath, pebble.Options{LockWait: lockWait, Log: o.Logger})
	if err != nil {
		return locked(cfg, err)
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	if err := p.use(ctx, kept); err != nil {
		return err
	}
	streams, err := newStreams(cfg, &p)
	if err != nil {
		return err
	}
	l := &looking{status: httpapi.Status{Started: time.Now()}, mode: reconcile.Mode{DryRun: true}}
	if l.shards, err = newShards(cfg, &p, streams); err != nil {
		return err
	}
	positions := make([]savedPosition, len(l.shards))
	owners := make([]reconcile.Owner, len(l.shards))
	for i := range owners {
		owners[i] = &positions[i]
	}
	l.all = scheduled(cfg, &p, streams, owners)
	for i := range l.all {
		s, last := l.all[i].Status(), len(l.status.Streams)-1
		if last < 0 || l.status.Streams[last].Name != s.Stream {
			one := httpapi.StreamStatus{Name: s.Stream, Kind: cfg.Stream(s.Stream).Kind, CatchUp: catchup.StreamProgress{Ready: true}}
			l.status.Streams, last = append(l.status.Streams, one), last+1
		}
		one := shard.Status{Shard: s.Shard, State: shard.Running, LastPoll: null.At(l.status.Started)}
		if err := positions[i].load(ctx, cfg, &p, s); err != nil {
			one.State, one.Reason = shard.Stopped, null.Text(config.StreamText(s.Stream)(err))
		}
		l.status.Streams[last].Shards = append(l.status.Streams[last].Shards, one)
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() { stop(); l.comparing.Wait() }()
	return do(ctx, l)
}

// Keep returns the configuration with only those streams for which keep returns true.
func Keep(cfg *config.Config, keep func(*config.Stream) bool) *config.Config {
	some := *cfg
	some.Streams = slices.DeleteFunc(slices.Clone(cfg.Streams), func(s config.Stream) bool { return !keep(&s) })
	return &some
}
