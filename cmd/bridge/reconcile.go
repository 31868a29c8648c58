package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"bridge/internal/backoff"
	"bridge/reconcile"
)

const reconcileDetails = `
It reads the whole tables of the streams, of all where none is named, compares them with what was published of them, and publishes the
difference: rows that were missed, rows that were updated in place, entities whose row is gone. It asks the bridge that runs at
BRIDGE_HTTP_ADDR (127.0.0.1:8080) to do that and waits until it has. Where nobody listens there it opens source, sink and
checkpoint itself, catches up as bridge run does, reconciles once, and ends. docs/operations.md explains what is found.

  --dry-run         print the differences, publish and save nothing
  --allow-deletes   publish deletes however many there are, and let a stream go on whose table uses its ids again
  --json            the reports as JSON

When suspiciously many entities are gone no delete is published: look at the table first, and only when it is what it should
be run it again with --allow-deletes. What can be wrong: the source is another database or a replica that is behind, the table
was truncated, exchanged, or restored from an old copy.

Exit status: 0 when the streams were reconciled, 1 when deletes were held back or a reconcile failed, 2 wrong usage or configuration.
`

// reconcileJob is what the command is to do.
type reconcileJob struct {
	streams []string
	mode    reconcile.Mode
	json    bool
}

// shardOutcome is what became of one shard.
type shardOutcome struct {
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	ReconcileReport
}

func reconcileCommand(p *process, ctx context.Context, call call) error {
	job := reconcileJob{
		streams: slices.Compact(slices.Sorted(slices.Values(call.arguments))),
		mode:    reconcile.Mode{DryRun: call.flags["dry-run"], AllowDeletes: call.flags["allow-deletes"]},
		json:    call.flags["json"],
	}
	addr, err := loadHTTPAddr(p.environ)
	if err != nil {
		return err
	}
	out := p.stdout
	bridge := &runningBridge{addr: addr}
	status, err := bridge.status(ctx)
	var outcomes []shardOutcome
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		cfg, err := loadConfig(p.environ, p.secrets)
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

// reconcileThere has a running bridge reconcile, and waits until it has. status is what that bridge is like.
func (p *process) reconcileThere(ctx context.Context, bridge *runningBridge, status Status, job reconcileJob) ([]shardOutcome, error) {
	var there []string
	for _, s := range status.Streams {
		there = append(there, s.Name)
	}
	chosen, err := choose(job.streams, there)
	if err != nil {
		return nil, err
	}
	for _, name := range chosen {
		asked, err := bridge.reconcile(ctx, name, job.mode)
		if err != nil {
			return nil, err
		}
		status.Started = asked.Started
	}
	show := p.newReconcileProgress(!job.json)
	defer show.stop()
	watch := newWatch(chosen, job.mode)
	for began := status.Started; ; {
		if err := backoff.Pause(ctx, askEvery); err != nil {
			return nil, err
		}
		if status, err = bridge.status(ctx); err != nil {
			return nil, err
		}
		if !status.Started.Equal(began) {
			return nil, errors.New("bridge was restarted meanwhile and knows nothing of the request: ask again")
		}
		done := watch.look(status)
		if done {
			return watch.outcomes(), nil
		}
		show.show(watch.line(status))
	}
}
