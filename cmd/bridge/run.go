package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"bridge/internal/gcpace"
	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// runDaemon runs until ctx is cancelled, then publishes and saves what is in flight and closes sink, checkpoint and source, in
// that order. An error means that it could not start, or could not end in good order.
func runDaemon(ctx context.Context, cfg *Config, logger *slog.Logger) (err error) {
	for _, w := range cfg.Warnings {
		logger.Warn(w.Text, "variable", w.Variable)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e, err := openEngine(cfg, registry, openBolt, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	scheduler := reconcile.NewScheduler(logger, e.reconcilers...)
	if e.recalls != nil {
		e.recalls.Then(func(stream string) { scheduler.Request(stream, reconcile.Mode{}) })
	}
	registry.MustRegister(pipeline.NewCollector(e.shards, e.limits), &reconcileCollector{e.reconcilers})
	h := &health{
		streams: cfg.Streams, shards: e.shards, faults: e.faults, source: &inquiry{put: e.source.Ready}, sink: &inquiry{put: e.sink.Ready},
		reconcilers: e.reconcilers, scheduler: scheduler, started: time.Now(),
	}
	server, err := openHTTP(ctx, cfg.HTTPAddr, h, registry, logger)
	if err != nil {
		return err
	}
	logger.Info("bridge runs", "version", version, "streams", len(cfg.Streams), "shards", len(e.shards),
		"source", cfg.Source.Addr, "sink", cfg.Sink.Scheme, "checkpoint", cfg.CheckpointPath, "http", server.Addr().String())
	defer logger.Info("bridge ended")
	told := make(chan struct{})
	untold := context.AfterFunc(ctx, func() {
		defer close(told)
		logger.Info("told to end: publishing and saving what is in flight", "within", cfg.ShutdownTimeout)
	})
	defer func() {
		if !untold() {
			<-told
		}
	}()
	looking, stopLooking := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { gcpace.Run(looking) })
	looks.Go(func() { logFindings(looking, cfg, e.source, logger) })
	defer looks.Wait()
	defer stopLooking()
	return serve(ctx, e, scheduler, server)
}

// serve runs the shards and the reconciles until ctx is cancelled, and the pages for as long as a shard runs.
func serve(ctx context.Context, e *engine, scheduler *reconcile.Scheduler, server *httpServer) error {
	pages, closePages := context.WithCancel(context.WithoutCancel(ctx))
	defer closePages()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var http errgroup.Group
	http.Go(func() error {
		err := server.Run(pages)
		if err != nil {
			fail(err)
		}
		return err
	})
	err := e.run(running, scheduler.Run)
	closePages()
	if err := errors.Join(err, http.Wait()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
