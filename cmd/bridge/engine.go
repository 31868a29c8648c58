package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"bridge/internal/outage"
	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// engine is what reads, publishes and compares: all of the process save its pages. Nothing of it runs until run is called.
type engine struct {
	parts
	shards []*pipeline.Shard
	// recalls is what shards ask whether the bus knows more than the checkpoint; nil where it cannot be read.
	recalls *pipeline.Recalls
	// reconcilers are those of shards, in their order.
	reconcilers []reconcile.Scheduled
	// closers are closed last to first.
	closers []func() error
}

// openEngine opens source, checkpoint and sink and makes the shards of cfg. Metrics are registered with registry.
func openEngine(cfg *Config, registry prometheus.Registerer, open func(path string) (store, error), logger *slog.Logger) (_ *engine, err error) {
	e := &engine{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	e.logger, e.metrics, e.faults = logger, pipeline.NewMetrics(registry), outage.New(logger)
	e.limits = pipeline.NewLimits(cfg.MaxInflightBytes, len(cfg.Streams), maxReads)
	src, err := openSource(cfg, logger)
	if err != nil {
		return nil, err
	}
	e.source, e.closers = src, append(e.closers, src.Close)
	kept, err := open(cfg.CheckpointPath)
	if err != nil {
		return nil, err
	}
	e.store, e.closers = kept, append(e.closers, kept.Close)
	bus, err := openSink(cfg, logger, e.metrics.Retry)
	if err != nil {
		return nil, err
	}
	e.sink, e.closers = bus, append(e.closers, bus.Close)
	if e.shards, err = newShards(cfg, e.parts); err != nil {
		return nil, err
	}
	if e.recalls, err = pipeline.NewRecalls(context.Background(), e.sink, e.store, e.shards); err != nil {
		return nil, err
	}
	e.reconcilers, err = newReconcilers(cfg, e.parts, e.shards)
	return e, err
}

// run tails all tables until ctx is cancelled, and runs beside beside them, which is to end when its context does. An error of a shard
// means that the process has to be restarted: it ends the others in good order.
func (e *engine) run(ctx context.Context, beside func(context.Context) error) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var group errgroup.Group
	start := func(one func(context.Context) error) {
		group.Go(func() error {
			err := one(running)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	for _, shard := range e.shards {
		start(shard.Run)
	}
	start(beside)
	return group.Wait()
}

// close closes sink, checkpoint and source, in that order.
func (e *engine) close() error {
	var errs []error
	for _, one := range slices.Backward(e.closers) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}
