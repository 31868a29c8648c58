package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
)

type reconcileJob struct {
	streams []string
	mode    reconcile.Mode
	json    bool
}

func reconcileCommand(p *process) *cobra.Command {
	c := newCommand("reconcile [<stream> ...]", "compare tables with what was published, publish the rest")
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

// reconcile has the running bridge reconcile, or one inside this process if none listens.
func (p *process) reconcile(ctx context.Context, job reconcileJob) (outcomes []outcomeOf, err error) {
	bridge, err := p.newClient()
	if err != nil {
		return nil, err
	}
	show := p.newLine(!job.json)
	defer show.Stop()
	status, err := bridge.Working(ctx)
	switch {
	case err == nil:
		outcomes, err = p.request(ctx, bridge, status, job, make(stillTables), show)
		return outcomes, interrupted(ctx, err, "the bridge that was asked goes on")
	case !errors.Is(err, syscall.ECONNREFUSED):
		return nil, interrupted(ctx, err, "nothing was asked for")
	}
	cfg, err := p.load()
	if err != nil {
		return nil, err
	}
	if !cfg.Sink.Readable() && !job.mode.DryRun {
		// The events are printed there.
		p.stdout = p.stderr
	}
	chosen, err := choose(job.streams, cfg.StreamNames())
	if err != nil {
		return nil, err
	}
	if cfg, err = app.WithTables(ctx, cfg, chosen...); err != nil {
		return nil, err
	}
	if !job.mode.DryRun {
		text := fmt.Sprintf("no bridge runs at %s: this command reads the bus, publishes what the tables have that was not published, and reconciles", cfg.HTTPAddr)
		if _, err := os.Stat(cfg.CheckpointPath); errors.Is(err, fs.ErrNotExist) && cfg.CheckpointTopic == "" {
			text += fmt.Sprintf("; there is no checkpoint at %s: where the bus has nothing of a table, it is published from its START on", cfg.CheckpointPath)
		}
		if _, err := fmt.Fprintln(p.stderr, p.secrets.Clean(text)); err != nil {
			return nil, err
		}
	}
	o := app.InsideOptions{Config: app.Keep(cfg, func(s *config.Stream) bool { return slices.Contains(chosen, s.Name) }), Logger: p.waitLog(cfg), DryRun: job.mode.DryRun}
	after, err := app.RunInside(ctx, o, func(ctx context.Context, bridge *app.Inside) (err error) {
		still := make(stillTables)
		if status, err = awaitTails(ctx, bridge, reconcile.Mode{}, still, show); err == nil {
			outcomes, err = p.request(ctx, bridge, status, job, still, show)
		}
		return err
	})
	for i := range outcomes {
		o := &outcomes[i]
		if s := shardOf(&after, o.Stream, o.Shard); s != nil {
			o.Published = &s.Published.Rows
		}
	}
	return outcomes, interrupted(ctx, err, "the next reconcile goes on where this one stopped")
}

// interrupted replaces an error that a signal caused by what becomes of the work.
func interrupted(ctx context.Context, err error, then string) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: " + then)
	}
	return err
}

// choose returns the wanted streams of those there, all of them if none is wanted.
func choose(wanted, there []string) ([]string, error) {
	for _, name := range wanted {
		if !slices.Contains(there, name) {
			return nil, usageErrorf("no stream is configured as %q: there are %s", name, strings.Join(there, ", "))
		}
	}
	if len(wanted) == 0 {
		return there, nil
	}
	return wanted, nil
}

const (
	askEvery = 250 * time.Millisecond
	// stillTimeout is how long a table may stand still until it is not waited for.
	stillTimeout = 30 * time.Second
)

// asked is a bridge that works: one that runs, or one inside this process.
type asked interface {
	Working(ctx context.Context) (httpapi.Status, error)
	Reconcile(ctx context.Context, stream string, mode reconcile.Mode) (httpapi.Accepted, error)
	Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error)
}

// tablesOf goes through the tables of a status, with their streams. Of one that is gone nothing can
// be asked.
func tablesOf(status *httpapi.Status) iter.Seq2[*httpapi.StreamStatus, *shard.Status] {
	return func(yield func(*httpapi.StreamStatus, *shard.Status) bool) {
		for i := range status.Streams {
			stream := &status.Streams[i]
			for j := range stream.Shards {
				if one := &stream.Shards[j]; one.State != shard.Gone && !yield(stream, one) {
					return
				}
			}
		}
	}
}

// shardOf returns a table of a stream, nil if there is none.
func shardOf(status *httpapi.Status, stream, table string) *shard.Status {
	for of, one := range tablesOf(status) {
		if of.Name == stream && one.Shard == table {
			return one
		}
	}
	return nil
}

// stays reports whether a table is paused, or is stopped and stays so in a mode: ids that are used
// again are accepted with the deletes.
func stays(stream *httpapi.StreamStatus, one *shard.Status, mode reconcile.Mode) bool {
	accepts := mode.AllowDeletes && !mode.DryRun && stream.Kind != event.Release && one.Cause == shard.CauseIDsReused
	return one.State == shard.Stopped && !accepts || one.State == shard.Paused
}

type tableName struct{ stream, shard string }

// stillTables are tables of which nothing is asked, with the reasons.
type stillTables map[tableName]string

// movement is how far a table is, and since when.
type movement struct {
	where string
	at    time.Time
}

// awaitTails waits until the streams of a bridge inside have caught up from the bus, and the tail
// of each table has reached the end that the table had at its first read, or stays stopped. A table
// that stands still for stillTimeout is added to still.
func awaitTails(ctx context.Context, bridge asked, mode reconcile.Mode, still stillTables, show *terminal.Line) (status httpapi.Status, err error) {
	ends, moved := make(map[tableName]uint64), make(map[tableName]movement)
	for {
		if status, err = bridge.Working(ctx); err != nil {
			return status, err
		}
		line, catchUps := "", ""
		for i := range status.Streams {
			// One stream may wait for another to catch up.
			if c := &status.Streams[i].CatchUp; !c.Ready {
				catchUps += fmt.Sprintln(i, c.Messages, c.Left)
			}
		}
		for stream, one := range tablesOf(&status) {
			name, polled := tableName{stream.Name, one.Shard}, !one.LastPoll.IsZero()
			if polled && ends[name] == 0 {
				ends[name] = one.Highest
			}
			switch {
			case still[name] != "", stays(stream, one, mode), stream.CatchUp.Ready && polled && one.State != shard.Stopped && (one.NoTail || one.Position >= ends[name]):
				continue
			case stream.CatchUp.Error != "":
				return status, fmt.Errorf("stream %s does not catch up from the bus: %s", stream.Name, stream.CatchUp.Error)
			}
			if where := fmt.Sprintln(catchUps, polled, one.Position); moved[name].where != where {
				moved[name] = movement{where, time.Now()}
			}
			waits := fmt.Sprintf("catching up, id %d of %d", one.Position, one.Highest)
			if !stream.CatchUp.Ready {
				waits = fmt.Sprintf("reading the bus, %d messages, %d offsets left", stream.CatchUp.Messages, stream.CatchUp.Left)
			}
			if time.Since(moved[name].at) <= stillTimeout {
				line = cmp.Or(line, terminal.Visible(stream.Name+" "+one.Shard)+": "+waits)
				continue
			}
			still[name] = fmt.Sprintf("nothing has moved for %s: %s", stillTimeout, waits)
			if why := cmp.Or(waitsFor(status, one.Shard), string(one.Reason)); why != "" {
				still[name] += ": " + why
			}
		}
		if line == "" {
			return status, nil
		}
		show.Show(line)
		if err := backoff.Pause(ctx, askEvery/5); err != nil {
			return status, err
		}
	}
}

// request has a bridge reconcile, and waits until it has. status is what that bridge is like; of
// still tables nothing is asked.
func (p *process) request(ctx context.Context, bridge asked, status httpapi.Status, job reconcileJob, still stillTables, show *terminal.Line) ([]outcomeOf, error) {
	var there []string
	for _, s := range status.Streams {
		there = append(there, s.Name)
	}
	chosen, err := choose(job.streams, there)
	if err != nil {
		return nil, err
	}
	began, w := status.Started, newWatch(chosen, job.mode, still, status)
	for i := range status.Streams {
		stream := &status.Streams[i]
		if !slices.Contains(chosen, stream.Name) || !w.runs(stream) {
			continue
		}
		accepted, err := bridge.Reconcile(ctx, stream.Name, job.mode)
		if err != nil {
			return nil, err
		}
		began = accepted.Started
	}
	goesOn := ", the bridge that was asked goes on once it can"
	if inside, is := bridge.(*app.Inside); is {
		goesOn = ""
		// A table whose ids are used again is read from its beginning.
		if _, err := awaitTails(ctx, bridge, job.mode, still, show); err != nil {
			return nil, err
		}
		inside.Begin(ctx)
	}
	for away, before := (time.Time{}), ""; ; {
		if status, err = bridge.Working(ctx); err != nil {
			return nil, err
		}
		if !status.Started.Equal(began) {
			return nil, errors.New("bridge was restarted meanwhile, or another process of its standby group works now, which knows nothing of the request: ask again")
		}
		line, rows, waits := w.observe(status)
		switch moved := fmt.Sprintln(len(w.done), rows); {
		case line == "":
			return w.outcomes(), nil
		case waits == "":
			away = time.Time{}
		case away.IsZero(), moved != before:
			away, before = time.Now(), moved
		case time.Since(away) > p.awayLimit():
			return nil, fmt.Errorf("gave up after %s%s: it waits for %s", p.awayLimit(), goesOn, waits)
		}
		show.Show(line)
		if err := backoff.Pause(ctx, askEvery); err != nil {
			return nil, err
		}
	}
}

// awayLimit is how long a bridge may wait for something until a command gives up.
func (p *process) awayLimit() time.Duration { return cmp.Or(p.away, 30*time.Second) }

// waitsFor returns what keeps the bridge from reconciling one of these tables, empty where nothing
// does.
func waitsFor(status httpapi.Status, tables ...string) string {
	from := status.Source
	if all := status.Sources; len(all) > 0 {
		from = nil
		for i := range all {
			of := func(table string) bool {
				name, _, named := strings.Cut(table, "/")
				return named == (all[i].Name != "") && (!named || name == all[i].Name)
			}
			if all[i].Error != "" && slices.ContainsFunc(tables, of) {
				from = &all[i]
			}
		}
	}
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", from}, {"the bus", status.Bus}, {"the checkpoint", status.Checkpoint}} {
		if d := one.state; d != nil && d.Answers != nil && !*d.Answers && d.Error != "" {
			return one.name + ": " + terminal.OneLine(string(d.Error))
		}
	}
	return ""
}

func progressLine(name string, r *reconcile.Status, done, shards int) string {
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
