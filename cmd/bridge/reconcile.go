package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"bridge/internal/app"
	"bridge/internal/backoff"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/terminal"
	"bridge/reconcile"
)

const reconcileDetails = `
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

  --dry-run         print the differences, publish and save nothing
  --allow-deletes   publish deletes however many there are, and let a stream go
                    on whose table uses its ids again
  --json            print the reports as JSON

While suspiciously many entities are gone no delete is published. Look at the
table first, and run it again with --allow-deletes only when the table is right.
What can be wrong: the source is another database or a replica that lags,
or the table was truncated, exchanged, or restored from an old copy.

While it waits it says for what. It gives up when source or bus have not
answered for 30 s.

Exit status: 0 when the streams were reconciled, 1 when deletes were held back
or a reconcile failed, 2 wrong usage or configuration.
`

// reconcileJob is what the command is to do.
type reconcileJob struct {
	streams []string
	mode    reconcile.Mode
	json    bool
}

func reconcileCommand(p *process, ctx context.Context, call cli.Call) error {
	job := reconcileJob{
		streams: slices.Compact(slices.Sorted(slices.Values(call.Arguments))),
		mode:    reconcile.Mode{DryRun: call.Flags["dry-run"], AllowDeletes: call.Flags["allow-deletes"]},
		json:    call.Flags["json"],
	}
	bridge, err := p.newClient()
	if err != nil {
		return err
	}
	out := p.stdout
	status, err := bridge.Working(ctx)
	var outcomes []app.Outcome
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		cfg, err := config.Load(p.environ, p.secrets)
		if err != nil {
			return err
		}
		if cfg.Sink.Scheme == "stdout" && !job.mode.DryRun {
			// The events are printed there.
			out = p.stderr
		}
		if outcomes, err = p.reconcileAlone(ctx, cfg, job); err != nil {
			return interrupted(ctx, err, "the next reconcile goes on where this one stopped")
		}
	case err != nil:
		return interrupted(ctx, err, "nothing was asked for")
	default:
		if outcomes, err = p.reconcileThere(ctx, bridge, status, job); err != nil {
			return interrupted(ctx, err, "the bridge that was asked goes on")
		}
	}
	return p.printOutcomes(out, outcomes, job)
}

// interrupted replaces an error that a signal caused by what becomes of the work.
func interrupted(ctx context.Context, err error, then string) error {
	if ctx.Err() != nil {
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
	watch := newWatch(chosen, job.mode)
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
		done := watch.observe(status)
		if done {
			return watch.outcomes(), nil
		}
		waits := watch.waits(status)
		switch {
		case waits == "":
			away = time.Time{}
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > p.awayLimit():
			return nil, fmt.Errorf("gave up after %s, the bridge that was asked goes on once it can: it waits for %s", p.awayLimit(), waits)
		}
		show.Show(watch.line(status))
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

// waitLog returns a log on stderr that says what a command waits for.
func (p *process) waitLog(cfg *config.Config) *slog.Logger {
	return newLogger(p.stderr, max(cfg.LogLevel, slog.LevelWarn), cfg.LogFormat, p.secrets)
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
