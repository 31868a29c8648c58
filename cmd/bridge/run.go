package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"bridge/checkpoint/store"
	"bridge/internal/app"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/logburst"
)

const runDetails = `
SIGTERM or SIGINT stops it within BRIDGE_SHUTDOWN_TIMEOUT, with status 0. A
second signal stops it at once, with status 1; nothing is lost.

The configuration comes from the environment; docs/configuration.md describes
it.
`

// runCommand reads the whole configuration and runs the daemon until a signal.
func runCommand(p *process, ctx context.Context, _ cli.Call) error {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return err
	}
	logger := newLogger(p.stderr, cfg.LogLevel, cfg.LogFormat, p.secrets)
	bursts := logburst.New(logger.Handler(), logburst.Options{})
	defer bursts.Flush()
	return p.daemon(ctx, cfg, slog.New(bursts))
}

// runDaemon runs until ctx is cancelled. An error means that it could not start, or could not end
// in good order.
func runDaemon(ctx context.Context, cfg *config.Config, logger *slog.Logger) (err error) {
	a, err := app.Open(ctx, app.Options{Config: cfg, Logger: logger, Build: appBuild(), Serve: true})
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		logger.Info("bridge was stopped before it ran")
		return nil
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("%w: if a bridge runs on it already, end that one, or set BRIDGE_CHECKPOINT_URL to another folder", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.Run(ctx)
}

// appBuild is the version for the log and the metrics.
func appBuild() app.Build {
	v := currentVersion()
	return app.Build{Version: v.Version, Revision: v.Commit, Go: v.Go}
}
