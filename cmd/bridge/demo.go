package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/demo"
	"example.org/bridge/internal/verify"
)

func demoCommand(p *process) *cobra.Command {
	c := newCommand("demo", "see events within seconds; needs no service and no settings")
	length := 20 * time.Second
	c.Flags().Func("for", "how long to write, such as `20s` or 5m; Ctrl-C ends it earlier", func(text string) (err error) {
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			return errors.New("bridge demo --for takes a duration above 0 with its unit, as in 20s or 5m")
		}
		return nil
	})
	keep := c.Flags().Bool("keep", false, "keep the folder with the database, the events and the\nconfiguration")
	c.RunE = func(c *cobra.Command, _ []string) error { return p.demo(c.Context(), length, *keep) }
	return c
}

func (p *process) demo(ctx context.Context, length time.Duration, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "bridge-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder, set TMPDIR to one with room and the right to write: %w", err)
	}
	if !keep {
		leftover.Lock()
		leftover.dir = dir
		leftover.Unlock()
		defer func() { err = errors.Join(err, removeLeftover()) }()
	}
	// A terminal that goes away ends the demo like Ctrl-C, so that the folder is removed.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// Somebody listens, so a pipe that goes away is an error of the write and not the end of the
	// process.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	if err = p.playDemo(ctx, dir, length, keep); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// It was ended before it had begun.
		return nil
	}
	return explainDemo(err, dir)
}

// playDemo opens everything in dir, lets the shop write for a while, and verifies. ctx ends the
// writing, not the verification.
func (p *process) playDemo(ctx context.Context, dir string, length time.Duration, keep bool) (err error) {
	environ := demoEnviron(dir)
	cfg, err := config.Load(environ, &config.Redactor{})
	if err != nil {
		return fmt.Errorf("configure the demo: %w", err)
	}
	stage := demo.Stage{Length: length, Out: p.stdout, Colour: p.colourful()}
	if keep {
		stage.Kept = dir
		if err := os.WriteFile(filepath.Join(dir, "bridge.env"), []byte(strings.Join(environ, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("keep the configuration: %w", err)
		}
	}
	if stage.DB, err = demo.OpenDatabase(ctx, cfg.Sources[0].Addr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.DB.Close()) }()
	bridge, err := app.Open(ctx, app.Options{Config: cfg, Logger: p.newLogger(slog.LevelWarn, ""), Build: appBuild()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	stage.Bridge = bridge
	stage.Verify = func(ctx context.Context) (*verify.Report, error) {
		return bridge.Verify(ctx, 10)
	}
	report, err := stage.Run(ctx)
	if err == nil && !report.Good {
		return differError(report)
	}
	return err
}

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

// demoAddress is where the demo's NATS server listens: a free port of the loopback.
const demoAddress = "127.0.0.1:0"

// reconcileEvery is the demo's interval, short enough for its finds to show.
const reconcileEvery = 3 * time.Second

func demoEnviron(dir string) []string {
	path := func(scheme, name string) string {
		return (&url.URL{Scheme: scheme, Path: filepath.Join(dir, name)}).String()
	}
	stream := func(table string, settings ...string) []string {
		for i := range settings {
			settings[i] = config.StreamPrefix(table) + settings[i]
		}
		return append(settings, config.StreamPrefix(table)+"TABLE="+table, config.StreamPrefix(table)+"CREATED=created")
	}
	return slices.Concat(
		[]string{
			"BRIDGE_SOURCE_URL=" + path("sqlite", "app.db"),
			"BRIDGE_SINK_URL=" + path("embedded", "nats") + "?listen=" + url.QueryEscape(demoAddress),
			"BRIDGE_CHECKPOINT_URL=" + path("file", "bridge.db"),
			"BRIDGE_STREAMS=" + strings.Join(demo.Tables, ","),
			"BRIDGE_DOMAIN_ID=demo",
			"BRIDGE_POLL_INTERVAL=100ms",
			// A young row need not wait: the ledger finds rows that commit late.
			"BRIDGE_STABILITY_WINDOW=0s",
			"BRIDGE_RECONCILE_INTERVAL=" + reconcileEvery.String(),
		},
		stream(demo.Products, "KIND=capability", "KEY=sku", "MODIFIED=modified", "DELETED=deleted", "FAMILY=shop", "EVENT=Product"),
		stream(demo.Stock, "KIND=capability", "KEY=warehouse,sku", "FAMILY=shop"),
		// The shop draws the ids of orders itself, so that one can be committed late.
		stream(demo.Orders, "KIND=release", "ID_ORDER=segmented", "FAMILY=shop", "EVENT=Order"),
	)
}

// leftover is the temporary folder of the demo, which is to go when the process ends, by a second
// signal, too.
var leftover struct {
	sync.Mutex
	dir string
}

// removeLeftover removes it. Files that are made in it meanwhile are removed, too, within reason.
func removeLeftover() (err error) {
	leftover.Lock()
	defer leftover.Unlock()
	for range 20 {
		if err = os.RemoveAll(leftover.dir); err == nil {
			leftover.dir = ""
			return nil
		}
	}
	return fmt.Errorf("remove the temporary folder %s: %w", leftover.dir, err)
}
