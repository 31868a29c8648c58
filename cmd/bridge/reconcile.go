package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
)

// reconcileJob is what the command is to do.
type reconcileJob struct {
	streams []string
	mode    reconcile.Mode
	json    bool
}

func reconcileCommand(p *process) *cobra.Command {
	c := newCommand("reconcile [<stream> ...]", "compare tables with what was published, publish the rest", `
It reads the whole tables of the named streams, or of all streams, compares them
with what was published, and publishes the difference: rows that were missed,
rows that were updated in place, entities whose row is gone. Of a release stream
it reads only ids that were not published and are no longer polled; bridge
verify compares the whole table. It asks the bridge that runs at
BRIDGE_HTTP_ADDR (127.0.0.1:8080) for that and waits until it is done; one that
waits as a standby asks the one that works. If nobody listens there it opens
source, sink and checkpoint itself, says so, catches up as bridge run does,
which publishes what was not published yet, reconciles once, and ends. PUBLISHED
counts all of that. docs/operations.md explains what it finds.

While suspiciously many entities are gone no delete is published. Look at the
table first, and run it again with --allow-deletes only when the table is right.
What can be wrong: the source is another database or a replica that lags,
or the table was truncated, exchanged, or restored from an old copy.

While it waits it says for what. It gives up when source or bus have not
answered for 30 s.

Exit status: 0 when the streams were reconciled, 1 when deletes were held back
or a reconcile failed, 2 wrong usage or configuration.
`)
	var job reconcileJob
	c.Flags().BoolVar(&job.mode.DryRun, "dry-run", false, "print the differences, publish and save nothing")
	c.Flags().BoolVar(&job.mode.AllowDeletes, "allow-deletes", false, "publish deletes however many there are, and let a\nstream go on whose table uses its ids again")
	c.Flags().BoolVar(&job.json, "json", false, "print the reports as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		job.streams = slices.Compact(slices.Sorted(slices.Values(args)))
		outcomes, err := p.reconcile(c.Context(), job)
		if err != nil {
			return err
		}
		return p.printOutcomes(outcomes, job)
	}
	return c
}

// reconcile has the running bridge reconcile, or does so itself where nobody listens there.
func (p *process) reconcile(ctx context.Context, job reconcileJob) (outcomes []app.Outcome, err error) {
	bridge, err := p.newClient()
	if err != nil {
		return nil, err
	}
	status, err := bridge.Working(ctx)
	switch {
	case err == nil:
		outcomes, err = p.reconcileThere(ctx, bridge, status, job)
		return outcomes, interrupted(ctx, err, "the bridge that was asked goes on")
	case !errors.Is(err, syscall.ECONNREFUSED):
		return nil, interrupted(ctx, err, "nothing was asked for")
	}
	cfg, err := p.load()
	if err != nil {
		return nil, err
	}
	if cfg.Sink.Scheme == "stdout" && !job.mode.DryRun {
		// The events are printed there.
		p.stdout = p.stderr
	}
	outcomes, err = p.reconcileAlone(ctx, cfg, job)
	return outcomes, interrupted(ctx, err, "the next reconcile goes on where this one stopped")
}

// interrupted replaces an error that a signal caused by what becomes of the work.
func interrupted(ctx context.Context, err error, then string) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: " + then)
	}
	return err
}

// choose returns those of the streams there are that are wanted, all where none is.
func choose(wanted, there []string) ([]string, error) {
	for _, name := range wanted {
		if !slices.Contains(there, name) {
			return nil, fmt.Errorf("no stream is configured as %q: there are %s", name, strings.Join(there, ", "))
		}
	}
	if len(wanted) == 0 {
		return there, nil
	}
	return wanted, nil
}

// askEvery is how often a status is looked at.
const askEvery = 250 * time.Millisecond

// reconcileThere has a running bridge reconcile, and waits until it has. status is what that bridge
// is like.
func (p *process) reconcileThere(ctx context.Context, bridge *httpapi.Client, status httpapi.Status, job reconcileJob) ([]app.Outcome, error) {
	var there []string
	for _, s := range status.Streams {
		there = append(there, s.Name)
	}
	chosen, err := choose(job.streams, there)
	if err != nil {
		return nil, err
	}
	for _, name := range chosen {
		asked, err := bridge.Reconcile(ctx, name, job.mode)
		if err != nil {
			return nil, err
		}
		status.Started = asked.Started
	}
	show := p.newLine(!job.json)
	defer show.Stop()
	w := watch{streams: chosen, mode: job.mode}
	var away time.Time
	for began := status.Started; ; {
		if err := backoff.Pause(ctx, askEvery); err != nil {
			return nil, err
		}
		if status, err = bridge.Working(ctx); err != nil {
			return nil, err
		}
		if !status.Started.Equal(began) {
			return nil, errors.New("bridge was restarted meanwhile, or another process of its standby group works now, which knows nothing of the request: ask again")
		}
		line := w.observe(status)
		switch waits := waitsFor(status); {
		case line == "":
			return w.outcomes(), nil
		case waits == "":
			away = time.Time{}
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > p.awayLimit():
			return nil, fmt.Errorf("gave up after %s, the bridge that was asked goes on once it can: it waits for %s", p.awayLimit(), waits)
		}
		show.Show(line)
	}
}

// awayLimit is how long a running bridge may wait for something until a command gives up.
func (p *process) awayLimit() time.Duration { return cmp.Or(p.away, 30*time.Second) }

// reconcileAlone reconciles without a running bridge. The lines of the log that matter go to
// stderr.
func (p *process) reconcileAlone(ctx context.Context, cfg *config.Config, job reconcileJob) ([]app.Outcome, error) {
	chosen, err := choose(job.streams, cfg.StreamNames())
	if err != nil {
		return nil, err
	}
	line := p.newLine(!job.json)
	defer line.Stop()
	alone := p.alone(app.Keep(cfg, func(s *config.Stream) bool { return slices.Contains(chosen, s.Name) }), line)
	if !job.mode.DryRun {
		if _, err := fmt.Fprintln(p.stderr, p.secrets.Clean(alone.Begins())); err != nil {
			return nil, err
		}
	}
	return alone.Reconcile(ctx, job.mode)
}

// alone returns what stands in for a running bridge, with the lines of its log that matter on
// stderr.
func (p *process) alone(cfg *config.Config, line *terminal.Line) *app.Alone {
	return &app.Alone{
		Config: cfg,
		Logger: p.waitLog(cfg),
		Show: func(s app.Step) {
			if s.Run != nil {
				line.Show(progressLine(s.Stream+" "+s.Shard, s.Run, s.Done, s.Tables))
				return
			}
			if c := s.CatchUp; c != nil {
				line.Show(fmt.Sprintf("%s: reading the bus, %d messages, %d offsets left", terminal.Visible(s.Stream), c.Messages, c.Left))
				return
			}
			line.Show(fmt.Sprintf("%s %s: catching up, id %d of %d", terminal.Visible(s.Stream), terminal.Visible(s.Shard), s.Position, s.Highest))
		},
	}
}

// watch waits for the requests of some streams to be answered.
type watch struct {
	streams []string
	mode    reconcile.Mode
	done    []app.Outcome
}

// observe adds to done what has ended. The line says how far the rest is; it is empty once
// everything has ended.
func (w *watch) observe(status httpapi.Status) (line string) {
	tables, name, running := 0, "", (*httpapi.ReconcileStatus)(nil)
	for _, stream := range status.Streams {
		if !slices.Contains(w.streams, stream.Name) {
			continue
		}
		for _, shard := range stream.Shards {
			tables++
			switch r := shard.Reconcile; {
			case r == nil || slices.ContainsFunc(w.done, func(o app.Outcome) bool { return o.Stream == stream.Name && o.Shard == shard.Shard }):
			case r.Waiting == 0:
				w.done = append(w.done, app.Outcome{Stream: stream.Name, Shard: shard.Shard, Compared: app.ComparedOf(stream.Kind), ReconcileReport: w.report(r)})
			case r.Running && running == nil:
				name, running = stream.Name+" "+shard.Shard, r
			}
		}
	}
	switch waits := waitsFor(status); {
	case len(w.done) == tables:
		return ""
	case running != nil:
		return progressLine(name, running, len(w.done), tables)
	case waits != "":
		return "waiting for " + waits
	case tables > 1:
		return fmt.Sprintf("waiting, %d of %d tables done", len(w.done), tables)
	}
	return "waiting"
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
		return cmp.Or(strings.Compare(a.Stream, b.Stream), strings.Compare(a.Shard, b.Shard))
	})
	return w.done
}

// waitsFor returns what keeps the bridge from reconciling, empty where nothing does.
func waitsFor(status httpapi.Status) string {
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
