package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bridge/internal/app"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/demo"
)

const demoDetails = `
It needs no service and ignores the environment: a shop writes to an SQLite
database in a temporary folder, bridge publishes its rows to a NATS server
inside the process, and the events are printed as they arrive. At the end all
that was written is compared with what a subscriber has read.

A word beside an event says what noticed it, unless it was the tail: late, its
id is below published ones; edit, the second cursor; scan, a reconcile.

  --for    how long to write, such as 20s or 5m; Ctrl-C ends it earlier
  --keep   keep the folder with the database, the events and the configuration

NO_COLOR turns colours off. Exit status: 0 when nothing was lost, else 1.
`

// demoFor is how long the shop writes unless --for says otherwise.
const demoFor = 20 * time.Second

// demoCommand runs the demo and sees that nothing is left behind.
func demoCommand(p *process, ctx context.Context, call cli.Call) (err error) {
	length := demoFor
	if text, given := call.Values["for"]; given {
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			return cli.Errorf("bridge demo --for takes a duration above 0 with its unit, as in 20s or 5m")
		}
	}
	dir, err := os.MkdirTemp("", "bridge-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder, set TMPDIR to one with room and the right to write: %w", err)
	}
	if !call.Flags["keep"] {
		leftovers.add(dir)
		defer func() { err = errors.Join(err, leftovers.clear()) }()
	}
	// A terminal that goes away ends the demo like Ctrl-C, so that the folder is removed.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// Somebody listens, so a pipe that goes away is an error of the write and not the end of the
	// process.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	if err = p.playDemo(ctx, dir, length, call.Flags["keep"]); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// It was ended before it had begun.
		return nil
	}
	return explainDemo(err, dir)
}

// playDemo opens everything in dir, lets the shop write for a while, and judges. ctx ends the
// writing, not the judging.
func (p *process) playDemo(ctx context.Context, dir string, length time.Duration, keep bool) (err error) {
	environ := demoEnviron(dir)
	cfg, err := config.Load(environ, &config.Redactor{})
	if err != nil {
		return fmt.Errorf("configure the demo: %w", err)
	}
	stage := demo.Stage{Stream: cfg.Sink.Embedded.Stream, Length: length, Out: p.stdout, Colour: p.colourful()}
	if keep {
		stage.Kept = dir
		if err := os.WriteFile(filepath.Join(dir, "bridge.env"), []byte(strings.Join(environ, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("keep the configuration: %w", err)
		}
	}
	if stage.DB, err = demo.OpenDatabase(ctx, cfg.Source.SQLite.Path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.DB.Close()) }()
	bridge, err := app.Open(ctx, app.Options{Config: cfg, Logger: newLogger(p.stderr, slog.LevelWarn, "", p.secrets), Build: appBuild()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	stage.Bridge = bridge
	return stage.Run(ctx)
}

// explainDemo adds to an error what to do about it.
func explainDemo(err error, dir string) error {
	if errors.Is(err, syscall.EPIPE) {
		// The reader closed the pipe.
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || err != nil && strings.Contains(err.Error(), "disk is full") {
		return fmt.Errorf("no room on the disk of %s: make some, or set TMPDIR to a folder on another disk: %w", filepath.Dir(dir), err)
	}
	return err
}
