package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint"
	"bridge/internal/backoff"
	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// reconcileAlone reconciles without a running bridge. The lines of the log that matter go to stderr.
func (p *process) reconcileAlone(ctx context.Context, cfg *Config, job reconcileJob) ([]shardOutcome, error) {
	chosen, err := choose(job.streams, namesOf(cfg.Streams))
	if err != nil {
		return nil, err
	}
	cfg.Streams = slices.DeleteFunc(slices.Clone(cfg.Streams), func(s Stream) bool { return !slices.Contains(chosen, s.Name) })
	logger := newLogger(p.stderr, max(cfg.LogLevel, slog.LevelWarn), cfg.LogFormat, p.secrets)
	a := &aloneRun{p: p, cfg: cfg, job: job, show: p.newReconcileProgress(!job.json)}
	defer a.show.stop()
	todo := a.run
	if job.mode.DryRun {
		todo = a.dry
	}
	err = todo(ctx, logger)
	return a.outcomes, err
}

// aloneRun reconciles the streams of cfg in this process.
type aloneRun struct {
	p        *process
	cfg      *Config
	job      reconcileJob
	show     *reconcileProgress
	outcomes []shardOutcome
}

// openStore opens the checkpoint and says what to do where a bridge holds it that could not be asked.
func (a *aloneRun) openStore(path string) (store, error) {
	s, err := a.p.openStore(path)
	if errors.Is(err, checkpoint.ErrLocked) {
		return nil, fmt.Errorf("%w: another process holds %s, and no bridge answers at %s: where that process is a bridge, set %s to the address on which it listens; else end it",
			checkpoint.ErrLocked, path, a.cfg.HTTPAddr, httpVariable)
	}
	return s, err
}

// run tails the streams until they have caught up, and reconciles each table once.
func (a *aloneRun) run(ctx context.Context, logger *slog.Logger) error {
	return a.tailing(ctx, logger, func(ctx context.Context, e *engine) error {
		for i, shard := range e.shards {
			a.one(ctx, shard, e.reconcilers[i].Reconciler)
		}
		return ctx.Err()
	})
}

// tailing calls do while the streams of cfg are tailed, and ends them in good order then.
func (a *aloneRun) tailing(ctx context.Context, logger *slog.Logger, do func(context.Context, *engine) error) (err error) {
	e, err := openEngine(a.cfg, prometheus.NewRegistry(), a.openStore, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	running, end := context.WithCancel(ctx)
	defer end()
	return e.run(running, func(ctx context.Context) error {
		// The shards publish and save what is in flight.
		defer end()
		return do(ctx, e)
	})
}

// one catches up with a shard, reconciles it and notes the outcome.
func (a *aloneRun) one(ctx context.Context, shard *pipeline.Shard, r *reconcile.Reconciler) {
	err := a.settle(ctx, shard)
	if err != nil {
		a.note(r, reconcile.Report{Error: err.Error()})
		return
	}
	a.compare(ctx, r)
}

// settleWithin is how long a shard may stand still before it is reconciled as it is.
const settleWithin = 30 * time.Second

// settle waits until the tail has come to where the table ended when it was read first, or stands still. With deletes allowed, a shard
// that stopped because its ids are used again goes on.
func (a *aloneRun) settle(ctx context.Context, shard *pipeline.Shard) error {
	var target, last uint64
	accepted, moved, polled := false, time.Now(), time.Time{}
	for {
		s := shard.Status()
		reach, running := shard.Reach()
		if target == 0 {
			target = s.Highest
		}
		switch {
		case running && !s.LastPoll.IsZero() && reach >= target:
			return nil
		case s.State == pipeline.Stopped && !accepted:
			if !a.job.mode.AllowDeletes || !shard.Accept() {
				return errors.New(s.LastError)
			}
			accepted, moved, target = true, time.Now(), 0
		case s.Position != last || !running && s.LastPoll != polled:
			last, polled, moved = s.Position, s.LastPoll, time.Now()
		case time.Since(moved) > settleWithin && running:
			return nil
		case time.Since(moved) > settleWithin:
			return fmt.Errorf("the tail does not get going within %s: %s", settleWithin, s.LastError)
		}
		a.show.show(fmt.Sprintf("%s %s: catching up, id %d of %d", visible(s.Stream), visible(s.Shard), s.Position, s.Highest))
		if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// compare reconciles a shard once, after what an earlier run has left, and notes the outcome.
func (a *aloneRun) compare(ctx context.Context, r *reconcile.Reconciler) {
	ended := make(chan reconcile.Report, 1)
	go func() {
		for {
			report, err := r.Run(ctx, a.job.mode)
			if err != nil {
				report.Error = err.Error()
			} else if report.Resumed {
				continue
			}
			ended <- report
			return
		}
	}()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case report := <-ended:
			a.note(r, report)
			return
		case <-tick.C:
			s := r.Status()
			a.show.show(progressLine(s.Stream+" "+s.Shard, reconcileStatus(s), len(a.outcomes), a.tables()))
		}
	}
}

func (a *aloneRun) tables() int {
	n := 0
	for i := range a.cfg.Streams {
		n += len(a.cfg.Streams[i].Tables)
	}
	return n
}

// note takes down what became of a shard. A guard that tripped before holds until a run passes it.
func (a *aloneRun) note(r *reconcile.Reconciler, report reconcile.Report) {
	s := r.Status()
	outcome := shardOutcome{s.Stream, s.Shard, *reconcileReport(report)}
	outcome.DryRun = a.job.mode.DryRun
	if outcome.Guard == nil && !a.job.mode.DryRun {
		outcome.Guard = given(s.Guard)
	}
	a.outcomes = append(a.outcomes, outcome)
}

// dry compares without a tail and without a bus: the checkpoint says how far the tail has come.
func (a *aloneRun) dry(ctx context.Context, logger *slog.Logger) error {
	if _, err := os.Stat(a.cfg.CheckpointPath); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no checkpoint at %s: nothing was published yet that a table could be compared with", a.cfg.CheckpointPath)
	}
	return a.looking(logger, func(p parts) error {
		owners := make([]reconcile.Owner, a.tables())
		positions := make([]savedPosition, len(owners))
		for i := range owners {
			owners[i] = &positions[i]
		}
		all, err := scheduled(a.cfg, p, owners)
		if err != nil {
			return err
		}
		for i := range all {
			if err := positions[i].load(ctx, a.cfg, p, all[i].Status()); err != nil {
				a.note(all[i].Reconciler, reconcile.Report{Error: err.Error()})
				continue
			}
			a.compare(ctx, all[i].Reconciler)
		}
		return ctx.Err()
	})
}

// looking calls do with the source and the checkpoint, without a tail and without a bus.
func (a *aloneRun) looking(logger *slog.Logger, do func(parts) error) (err error) {
	src, err := openSource(a.cfg, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	kept, err := a.openStore(a.cfg.CheckpointPath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	return do(parts{source: src, store: kept, logger: logger})
}
