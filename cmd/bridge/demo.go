package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bridge/internal/cli"
	"bridge/internal/demo"
	"bridge/internal/terminal"
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

// Times of the demo.
const (
	demoFor = 20 * time.Second
	// drainWithin is how long the last changes may take to the bus, a reconcile included; then they
	// count as lost.
	drainWithin = time.Minute
	// judgeWithin bounds the reading of the stream at the end.
	judgeWithin = time.Minute
)

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
	s := &demoStage{dir: dir, out: p.stdout, keep: call.Flags["keep"], colour: p.colourful(), length: length,
		logger: newLogger(p.stderr, slog.LevelWarn, "", p.secrets)}
	if err = s.run(ctx); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// It was ended before it had begun.
		return nil
	}
	return explainDemo(err, dir)
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

// demoStage is one demo.
type demoStage struct {
	dir          string
	out          io.Writer
	keep, colour bool
	length       time.Duration
	logger       *slog.Logger

	record   demo.Record
	received demo.Received
	screen   *demo.Screen
}

// sum says of which parts the changes that were written consist, where that is not the events
// alone.
func sum(v demo.Verdict) string {
	parts := []string{fmt.Sprintf("%d received", v.Events-v.Unknown-v.Repeated)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{len(v.Lost), "lost"},
		{v.Brief, "overwritten before it could be read"},
		{v.Unchanged, "that brought back what was published"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("\n           = %s", strings.Join(parts, "\n           + "))
}

// lossError says that the judge found something.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }

// verdict prints the summary; the error says what is wrong.
func (s *demoStage) verdict(v demo.Verdict, ran time.Duration) error {
	var text strings.Builder
	fmt.Fprintf(&text, `
written    %s in %s%s
received   %d, read by a subscriber from the beginning of the stream
lost       %d, repeated %d, out of date at the end %d
noticed    tail %d, late %d, second cursor %d, reconcile %d
latency    p50 %s, p99 %s from COMMIT to the bus (without reconcile)
`, terminal.Count(v.States, "change"), ran.Round(100*time.Millisecond), sum(v), v.Events, len(v.Lost), v.Repeated, v.Stale,
		v.Events-v.Late-v.Modified-v.Reconciled, v.Late, v.Modified, v.Reconciled, demo.Millis(v.P50), demo.Millis(v.P99))
	if s.keep {
		fmt.Fprintf(&text, "kept       %s\n", s.dir)
	}
	switch _, err := fmt.Fprint(s.out, text.String()); {
	case err != nil:
		return err
	case len(v.Lost) > 0:
		first := v.Lost[0]
		return &lossError{fmt.Sprintf("lost %s, the first is %q of id %d of %s: keep the folder with --keep and report it", terminal.Count(len(v.Lost), "state"), first.State, first.ID, first.Table)}
	case v.Stale > 0:
		return &lossError{fmt.Sprintf("entities whose last event is not their last state: %d: keep the folder with --keep and report it", v.Stale)}
	case v.Unknown > 0:
		return &lossError{fmt.Sprintf("%s on the bus about what was never written: keep the folder with --keep and report it", terminal.Count(v.Unknown, "event"))}
	}
	return nil
}
