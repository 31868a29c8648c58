package reconcile

import (
	"context"
	"log/slog"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/backoff"
	"bridge/internal/outage"
	"bridge/internal/panics"
	"bridge/source"
)

// Reconciler reconciles one shard. Run serves one goroutine at a time; Status may be called by any.
type Reconciler struct {
	opts    Options
	log     *slog.Logger
	faults  *outage.Log
	tracker tracker

	// reading is full while somebody uses the source: the scan reads ahead of what is compared.
	reading chan struct{}
	// answered is the wish that the last run answered. It serves the goroutine of the runs.
	answered wish
}

// New returns a reconciler under o.
func New(o Options) *Reconciler {
	o = o.withDefaults()
	log := o.Logger.With("stream", o.Stream, "shard", o.Shard)
	r := &Reconciler{opts: o, log: log, faults: outage.New(log), reading: make(chan struct{}, 1)}
	r.tracker.status.Stream, r.tracker.status.Shard = o.Stream, o.Shard
	return r
}

func (r *Reconciler) key() store.Key {
	return store.Key{Stream: r.opts.Stream, Shard: r.opts.Shard}
}

// Run reconciles the shard once, or finishes the run on record that was cut short; a dry run does
// neither. It blocks until everything that differs has been judged, published and saved. An error
// says that the run was cut short: it can be resumed, and the report tells how far it came.
//
// A guard that trips is no error: Report.Guard says so.
func (r *Reconciler) Run(ctx context.Context, mode Mode) (Report, error) {
	r.tracker.begin(mode)
	p := &pass{Reconciler: r, mode: mode}
	err := panics.Guard(func() (err error) {
		if p.encoder, err = r.opts.NewEncoder(); err != nil {
			return err
		}
		return p.reconcile(ctx)
	})
	report := p.reported(err)
	if err != nil {
		report.Error = r.opts.Text(err)
	}
	r.tracker.end(report, p.run, err)
	switch {
	case panics.Is(err):
		r.log.Error("reconcile panicked", panics.LogArgs(err)...)
	case err == nil && (report.Verdict != Verdict{} || report.Resumed || report.Guard != ""):
		r.log.Info("reconcile ended", "dry_run", mode.DryRun, "report", report)
	case err == nil:
		r.log.Debug("reconcile ended", "dry_run", mode.DryRun, "report", report)
	}
	return report, err
}

// Restore shows in the status how the last run on record ended. Run does that, too.
func (r *Reconciler) Restore(ctx context.Context) error {
	run, err := r.lastRun(ctx)
	if err == nil {
		r.tracker.update(func(s *Status) { s.restore(run) })
	}
	return err
}

// lastRun loads the run on record; the zero value is that there is none.
func (r *Reconciler) lastRun(ctx context.Context) (run Run, err error) {
	err = r.retry(ctx, "load the reconcile run", func() (err error) {
		run, _, err = LoadRun(ctx, r.opts.Store, r.key())
		return err
	})
	return run, err
}

// read reads a page, waiting for a source that is away.
func (r *Reconciler) read(ctx context.Context, q source.Query, page *source.Page) error {
	return r.query(ctx, "read "+r.opts.Shard, func() error { return r.opts.Source.Read(ctx, q, page) })
}

// query uses the source, retrying while it is away.
func (r *Reconciler) query(ctx context.Context, what string, try func() error) error {
	return r.retry(ctx, what, func() error {
		release, err := backoff.Acquire(ctx, r.reading)
		if err != nil {
			return err
		}
		defer release()
		return try()
	})
}

// reconcile is the whole of a run.
func (p *pass) reconcile(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	compare := p.scan
	if p.opts.Kind == event.Release {
		compare = p.release
	}
	if err := compare(ctx); err != nil {
		return err
	}
	if err := p.nominateAbsent(ctx); err != nil {
		return err
	}
	return p.finish(ctx)
}
