package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/logburst"
)

func runCommand(p *process) *cobra.Command {
	c := newCommand("run", "tail the streams and publish them (default)", `
SIGTERM or SIGINT stops it within BRIDGE_SHUTDOWN_TIMEOUT, with status 0. A
second signal stops it at once, with status 1; nothing is lost. SIGHUP reloads
the configuration, as bridge reload does.

The configuration comes from the environment; docs/configuration.md describes
it. All variables follow.
`)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		level := new(slog.LevelVar)
		level.Set(cfg.LogLevel)
		bursts := logburst.New(p.newLogger(level, cfg.LogFormat).Handler(), logburst.Options{})
		defer bursts.Flush()
		return p.daemon(c.Context(), app.ProcessOptions{Config: cfg, Logger: slog.New(bursts), Build: appBuild(), Load: p.loadAgain, Others: p.setOthers, Level: level})
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Parent().HelpFunc()(c, args)
		// There are variables.
		text, _ := variablesText("all")
		_, _ = io.WriteString(c.OutOrStdout(), "\n"+text)
	})
	return c
}

// runDaemon runs until ctx is cancelled, and reloads the configuration at each SIGHUP. An error
// means that it could not start, or could not end in good order.
func runDaemon(ctx context.Context, o app.ProcessOptions) (err error) {
	// To the end of the process, which a SIGHUP would end if nobody asked for it.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	bridge, err := app.OpenProcess(ctx, o)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		o.Logger.Info("bridge was stopped before it ran")
		return nil
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("%w: if a bridge runs on it already, end that one, or set BRIDGE_CHECKPOINT_URL to another folder", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	var reloads sync.WaitGroup
	defer reloads.Wait()
	reloading, end := context.WithCancel(ctx)
	defer end()
	reloads.Go(func() {
		for {
			select {
			case <-hangups:
				// The log has the error.
				_, _ = bridge.Reload(reloading)
			case <-reloading.Done():
				return
			}
		}
	})
	return bridge.Run(ctx)
}

// appBuild is the version for the log and the metrics.
func appBuild() app.Build {
	v := currentVersion()
	return app.Build{Version: v.Version, Revision: v.Commit, Go: v.Go}
}
