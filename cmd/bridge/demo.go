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

	"bridge/internal/demo"
)

const demoDetails = `
It needs no service and no configuration, and takes no notice of one: an SQLite database in a temporary folder, an application that
writes to it, a NATS server inside the process, and between them the pipeline of bridge run. It prints the events as they come,
at most 20 a second, and at the end compares what was written with what a subscriber of its own has read. Beside an event stands
what noticed it, unless it was the tail: late, its id is below earlier ones; edit, the second cursor; scan, a reconcile.

  --for    how long to write, as in 20s or 5m; SIGINT (Ctrl-C) or SIGTERM ends it earlier, with the summary
  --keep   leave the temporary folder, with the database, the events and the configuration

Colours are for terminals, and off with NO_COLOR. Exit status: 0 when nothing was lost, else 1.
`

// Times of the demo.
const (
	demoFor = 20 * time.Second
	// drainWithin is how long the last changes may take to the bus, a reconcile included; then they count as lost.
	drainWithin = 15 * time.Second
	// judgeWithin bounds the reading of the stream at the end.
	judgeWithin = time.Minute
)

// demoCommand runs the demo and sees that nothing is left behind.
func demoCommand(p *process, ctx context.Context, call call) (err error) {
	length := demoFor
	if text, given := call.values["for"]; given {
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			return wrongUsage("bridge demo --for takes a duration above 0 with its unit, as in 20s or 5m")
		}
	}
	dir, err := os.MkdirTemp("", "bridge-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder, set TMPDIR to one with room and the right to write: %w", err)
	}
	if !call.flags["keep"] {
		leftovers.add(dir)
		defer func() { err = errors.Join(err, leftovers.clear()) }()
	}
	// A terminal that goes away ends the demo like Ctrl-C, so that the folder is removed.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// Somebody listens, so a pipe that goes away is an error of the write and not the end of the process.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	s := &demoStage{dir: dir, out: p.stdout, keep: call.flags["keep"], colour: p.wantsColour(), length: length,
		logger: newLogger(p.stderr, slog.LevelWarn, "", p.secrets)}
	if err = s.run(ctx); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// It was ended before it had begun.
		return nil
	}
	return explainDemo(err, dir)
}

// wantsColour reports whether stdout is a terminal that shows colours to somebody who likes them.
func (p *process) wantsColour() bool {
	return isTerminal(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"
}

// explainDemo adds to an error what to do about it.
func explainDemo(err error, dir string) error {
	if errors.Is(err, syscall.EPIPE) {
		// Whoever read the output has seen enough.
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

	record demo.Record
	seen   demo.Seen
	screen *demo.Screen
}

// lossError says that the judge found something.
type lossError struct{ text string }

func (e *lossError) Error() string { return e.text }

// verdict prints the summary; the error says what is wrong.
func (s *demoStage) verdict(v demo.Verdict, ran time.Duration) error {
	var text strings.Builder
	fmt.Fprintf(&text, `
states written   %d in %s, and %s that say nothing new
events received  %d by a subscriber of its own, which read from the beginning
                 lost %d, repeated %d, stale %d
noticed          %d late, %d by the second cursor, %d by reconcile
latency          p50 %s, p99 %s from COMMIT to the stream (not reconcile)
`, v.States, ran.Round(100*time.Millisecond), count(v.Quiet, "write"), v.Events, len(v.Lost), v.Repeated, v.Stale,
		v.Late, v.Modified, v.Reconciled, demo.Millis(v.P50), demo.Millis(v.P99))
	if v.Brief > 0 {
		fmt.Fprintf(&text, "                 %s over before bridge could read it\n", count(v.Brief, "state"))
	}
	if s.keep {
		fmt.Fprintf(&text, "kept             %s\n", s.dir)
	}
	switch _, err := fmt.Fprint(s.out, text.String()); {
	case err != nil:
		return err
	case len(v.Lost) > 0:
		first := v.Lost[0]
		return &lossError{fmt.Sprintf("lost %s, the first is %q of id %d of %s: keep the folder with --keep and report it", count(len(v.Lost), "state"), first.State, first.ID, first.Table)}
	case v.Stale > 0:
		return &lossError{fmt.Sprintf("entities whose last event is not their last state: %d: keep the folder with --keep and report it", v.Stale)}
	case v.Unknown > 0:
		return &lossError{fmt.Sprintf("%s on the bus about what was never written: keep the folder with --keep and report it", count(v.Unknown, "event"))}
	}
	return nil
}
