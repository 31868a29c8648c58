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

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
)

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
func RunInside(ctx context.Context, o InsideOptions, do func(context.Context, *Inside) error) (after httpapi.Status, err error) {
	cfg := o.Config
	_, missing := os.Stat(cfg.CheckpointPath)
	switch none := errors.Is(missing, fs.ErrNotExist); {
	case o.DryRun && cfg.Standby.Group != "":
		return after, option.Errorf("another process of the standby group (%s) may have published what the checkpoint at %s lacks: type a dry run where a process of the group runs",
			option.Standby, cfg.CheckpointPath)
	case none && (o.DryRun || o.Kept && cfg.CheckpointTopic == ""):
		return after, option.Errorf("there is no checkpoint at %s: what was published is not known; see to %s", cfg.CheckpointPath, option.CheckpointURL)
	}
	app, err := Open(ctx, Options{Config: cfg, Logger: o.Logger, inside: true, dry: o.DryRun})
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w: another process holds %s, and no bridge answers at %s: where that process is a bridge, set %s to the address on which it listens; else end it",
			store.ErrLocked, cfg.CheckpointPath, cfg.HTTPAddr, config.HTTPVariable)
	}
	if err != nil {
		return after, err
	}
	defer func() { err = errors.Join(err, app.Close()) }()
	b := &Inside{health: health{app}}
	within := func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer func() { stop(); b.comparing.Wait() }()
		return do(ctx, b)
	}
	if o.DryRun {
		// It does not run: its shards go by what is saved.
		for _, sh := range app.shards {
			sh.ServeDryRun(ctx)
		}
		return after, within(ctx)
	}
	running, end := context.WithCancel(ctx)
	defer end()
	err = app.run(running, func(ctx context.Context) error {
		// The shards publish and save what is in flight.
		defer end()
		if err := within(ctx); ctx.Err() == nil {
			return err
		}
		// What has ended the context tells why.
		return nil
	})
	return app.Daemon().Status(), cmp.Or(err, ctx.Err())
}

// Inside is a bridge that a command runs inside itself where it finds none to ask.
type Inside struct {
	health
	// mode is that of the reconciles that Begin begins in a dry run.
	mode      reconcile.Mode
	comparing sync.WaitGroup
}

// Working returns its status. A process that waits as a standby says where to type the command. It
// names no address: the command would send the token there, and the bus alone tells it.
func (b *Inside) Working(context.Context) (httpapi.Status, error) {
	if s := b.waiting(); s != nil && s.Working != "" {
		return httpapi.Status{}, option.Errorf("%s works in the standby group of this configuration (%s): run the command where a process of the group runs, or with %s set to the address of one",
			worker(s), option.Standby, config.HTTPVariable)
	}
	status := b.Status()
	if !b.opts.dry {
		return status, nil
	}
	// A dry run waits for no bus, and for one run of each table that is there.
	for i := range status.Streams {
		stream := &status.Streams[i]
		stream.CatchUp.Ready = true
		for j := range stream.Shards {
			if r := stream.Shards[j].Reconcile; r != nil && r.LastDryRun == nil {
				r.Waiting = 1
			}
		}
	}
	return status, nil
}

// Reconcile requests what Begin begins: no reconcile that is due comes before it.
func (b *Inside) Reconcile(_ context.Context, stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	if b.opts.dry {
		b.mode = mode
		return httpapi.Accepted{Started: b.started.UTC()}, nil
	}
	return b.health.Reconcile(stream, mode)
}

// Begin begins the reconciles that were requested.
func (b *Inside) Begin(ctx context.Context) {
	b.comparing.Go(func() {
		if !b.opts.dry {
			// It returns nil once all runs have ended.
			_ = b.scheduler.Run(ctx)
			return
		}
		b.mode.DryRun = true
		for _, one := range b.reconcilers {
			// The status has the error.
			_, _ = one.Run(ctx, b.mode)
		}
	})
}

// Resend sends dead letters again, or in a dry run says what would become of them.
func (b *Inside) Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	if !b.opts.dry {
		return b.health.Resend(ctx, request)
	}
	for _, sh := range b.shards {
		if keyOf(sh) == (store.Key{Stream: request.Stream, Shard: request.Shard}) {
			return sh.Preview(ctx, request.DeadLetters)
		}
	}
	return nil, httpapi.ErrNoStream
}

// Keep returns the configuration with only those streams for which keep returns true.
func Keep(cfg *config.Config, keep func(*config.Stream) bool) *config.Config {
	return cfg.Part(slices.DeleteFunc(slices.Clone(cfg.Streams), func(s config.Stream) bool { return !keep(&s) }))
}
