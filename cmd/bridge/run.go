package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/logburst"
)

func runCommand(p *process) *cobra.Command {
	c := newCommand("run", "tail the streams and publish them (default)", `
SIGTERM or SIGINT stops it within BRIDGE_SHUTDOWN_TIMEOUT, with status 0. A
second signal stops it at once, with status 1; nothing is lost.

The configuration comes from the environment; docs/configuration.md describes
it. All variables follow.
`)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		logger := newLogger(p.stderr, cfg.LogLevel, cfg.LogFormat, p.secrets)
		bursts := logburst.New(logger.Handler(), logburst.Options{})
		defer bursts.Flush()
		return p.daemon(c.Context(), cfg, slog.New(bursts))
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Parent().HelpFunc()(c, args)
		// There are variables.
		text, _ := variablesText("all")
		_, _ = io.WriteString(c.OutOrStdout(), "\n"+text)
	})
	return c
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
