package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"bridge/reconcile"
)

// watch waits for the requests of some streams to be answered.
type watch struct {
	streams []string
	mode    reconcile.Mode
	shards  int
	done    []shardOutcome
}

func newWatch(streams []string, mode reconcile.Mode) *watch {
	return &watch{streams: streams, mode: mode}
}

// look takes down what has ended, and reports whether everything has.
func (w *watch) look(status Status) (all bool) {
	w.shards, all = 0, true
	for _, stream := range status.Streams {
		if !slices.Contains(w.streams, stream.Name) {
			continue
		}
		for _, shard := range stream.Shards {
			w.shards++
			switch {
			case w.has(stream.Name, shard.Shard):
			case shard.Reconcile == nil || shard.Reconcile.Waiting > 0:
				all = false
			default:
				w.done = append(w.done, shardOutcome{stream.Name, shard.Shard, w.report(shard.Reconcile)})
			}
		}
	}
	return all
}

func (w *watch) has(stream, shard string) bool {
	return slices.ContainsFunc(w.done, func(o shardOutcome) bool { return o.Stream == stream && o.Shard == shard })
}

// report is that of the run that answered the request.
func (w *watch) report(r *ReconcileStatus) ReconcileReport {
	report := r.LastRun
	if w.mode.DryRun {
		report = r.LastDryRun
	}
	if report == nil {
		text := "the bridge says nothing of the run"
		return ReconcileReport{DryRun: w.mode.DryRun, Error: &text}
	}
	if !w.mode.DryRun && report.Guard == nil {
		// Tripped before, and not passed by this run.
		report.Guard = r.Guard
	}
	return *report
}

// outcomes are those of all shards, in the order of their names.
func (w *watch) outcomes() []shardOutcome {
	slices.SortFunc(w.done, func(a, b shardOutcome) int {
		if order := strings.Compare(a.Stream, b.Stream); order != 0 {
			return order
		}
		return strings.Compare(a.Shard, b.Shard)
	})
	return w.done
}

// line says how far the shard is that is under way.
func (w *watch) line(status Status) string {
	for _, stream := range status.Streams {
		if !slices.Contains(w.streams, stream.Name) {
			continue
		}
		for _, shard := range stream.Shards {
			if r := shard.Reconcile; r != nil && r.Running && !w.has(stream.Name, shard.Shard) {
				return progressLine(stream.Name+" "+shard.Shard, r, len(w.done), w.shards)
			}
		}
	}
	if w.shards > 1 {
		return fmt.Sprintf("waiting, %d of %d tables done", len(w.done), w.shards)
	}
	return "waiting"
}

// progressLine is how far a run is, in a line for a terminal where names are not long.
func progressLine(name string, r *ReconcileStatus, done, shards int) string {
	line := fmt.Sprintf("%s %3.0f %%, %d", visible(name), r.Percent, r.Rows)
	if r.RowsOf > 0 {
		line += fmt.Sprintf(" of about %d", r.RowsOf)
	}
	line += fmt.Sprintf(" rows, %.0f/s", r.RowsPerSecond)
	if r.SecondsLeft >= 1 {
		line += fmt.Sprintf(", %s left", (time.Duration(r.SecondsLeft) * time.Second).String())
	}
	if shards > 1 {
		line += fmt.Sprintf(", %d of %d tables done", done, shards)
	}
	return line
}

// reconcileProgress shows lines of progress: on a terminal one in the place of the other, elsewhere now and then. A nil one shows nothing.
type reconcileProgress struct {
	w        io.Writer
	terminal bool
	told     time.Time
	shown    bool
}

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 10 * time.Second

// newReconcileProgress returns a progress on stderr, nil where it is not wanted.
func (p *process) newReconcileProgress(wanted bool) *reconcileProgress {
	if !wanted {
		return nil
	}
	return &reconcileProgress{w: p.stderr, terminal: isTerminal(p.stderr) && p.variable("TERM") != "dumb", told: time.Now()}
}

// show shows a line. One that cannot be written is not missed.
func (r *reconcileProgress) show(line string) {
	switch {
	case r == nil:
	case r.terminal:
		r.shown = true
		_, _ = fmt.Fprintf(r.w, "\r\x1b[K%s", cut(line, pageWidth))
	case time.Since(r.told) >= tellEvery:
		r.told = time.Now()
		_, _ = fmt.Fprintln(r.w, line)
	}
}

// stop clears the line.
func (r *reconcileProgress) stop() {
	if r != nil && r.shown {
		_, _ = fmt.Fprint(r.w, "\r\x1b[K")
	}
}

// cut returns what of text fits into so many columns.
func cut(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}
