package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bridge/internal/app"
	"bridge/internal/httpapi"
	"bridge/internal/terminal"
	"bridge/reconcile"
)

// watch waits for the requests of some streams to be answered.
type watch struct {
	streams []string
	mode    reconcile.Mode
	shards  int
	done    []app.Outcome
}

func newWatch(streams []string, mode reconcile.Mode) *watch {
	return &watch{streams: streams, mode: mode}
}

// observe takes down what has ended, and reports whether everything has.
func (w *watch) observe(status httpapi.Status) (all bool) {
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
				w.done = append(w.done, app.Outcome{Stream: stream.Name, Shard: shard.Shard, Compared: app.ComparedOf(stream.Kind), ReconcileReport: w.report(shard.Reconcile)})
			}
		}
	}
	return all
}

func (w *watch) has(stream, shard string) bool {
	return slices.ContainsFunc(w.done, func(o app.Outcome) bool { return o.Stream == stream && o.Shard == shard })
}

// report is that of the run that answered the request.
func (w *watch) report(r *httpapi.ReconcileStatus) httpapi.ReconcileReport {
	report := r.LastRun
	if w.mode.DryRun {
		report = r.LastDryRun
	}
	if report == nil {
		text := "the bridge says nothing of the run"
		return httpapi.ReconcileReport{DryRun: w.mode.DryRun, Error: &text}
	}
	if !w.mode.DryRun && report.Guard == nil {
		// Tripped before, and not passed by this run.
		report.Guard = r.Guard
	}
	return *report
}

// outcomes are those of all shards, in the order of their names.
func (w *watch) outcomes() []app.Outcome {
	slices.SortFunc(w.done, func(a, b app.Outcome) int {
		if order := strings.Compare(a.Stream, b.Stream); order != 0 {
			return order
		}
		return strings.Compare(a.Shard, b.Shard)
	})
	return w.done
}

// waits returns what keeps the bridge from reconciling what is not done, empty where nothing does.
func (w *watch) waits(status httpapi.Status) string {
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", status.Source}, {"the bus", status.Bus}, {"the checkpoint", status.Checkpoint}} {
		if d := one.state; d != nil && d.Answers != nil && !*d.Answers && d.Error != nil {
			return one.name + ": " + terminal.OneLine(*d.Error)
		}
	}
	return ""
}

// line says how far the shard is that is under way.
func (w *watch) line(status httpapi.Status) string {
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
	if waits := w.waits(status); waits != "" {
		return "waiting for " + waits
	}
	if w.shards > 1 {
		return fmt.Sprintf("waiting, %d of %d tables done", len(w.done), w.shards)
	}
	return "waiting"
}

// progressLine is how far a run is, in a line for a terminal where names are not long.
func progressLine(name string, r *httpapi.ReconcileStatus, done, shards int) string {
	line := fmt.Sprintf("%s %3.0f %%, %d", terminal.Visible(name), r.Percent, r.Rows)
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
