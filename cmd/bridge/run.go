package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"bridge/internal/outage"
	"bridge/internal/pipeline"
)

// runDaemon runs until ctx is cancelled, then publishes and saves what is in flight and closes sink, checkpoint and source, in
// that order. An error means that it could not start, or could not end in good order.
func runDaemon(ctx context.Context, cfg *Config, logger *slog.Logger) (err error) {
	for _, w := range cfg.Warnings {
		logger.Warn(w.Text, "variable", w.Variable)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := pipeline.NewMetrics(registry)

	// Deferred closes run in reverse: the source is closed last.
	src, err := openSource(cfg, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	store, err := openBolt(cfg.CheckpointPath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	bus, err := openSink(cfg, logger, metrics.Retry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()

	faults := outage.New(logger)
	limits := pipeline.NewLimits(cfg.MaxInflightBytes, len(cfg.Streams), maxReads)
	shards, err := newShards(cfg, parts{source: src, sink: bus, store: store, limits: limits, faults: faults, metrics: metrics, logger: logger})
	if err != nil {
		return err
	}
	registry.MustRegister(pipeline.NewCollector(shards, limits))
	h := &health{streams: cfg.Streams, shards: shards, faults: faults, source: src.Ready, sink: bus.Ready}
	server, err := openHTTP(ctx, cfg.HTTPAddr, h, registry, logger)
	if err != nil {
		return err
	}
	logger.Info("bridge runs", "version", version, "streams", len(cfg.Streams), "shards", len(shards),
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
	looks.Go(func() { logFindings(looking, cfg, src, logger) })
	defer looks.Wait()
	defer stopLooking()
	return serve(ctx, shards, server)
}

// serve runs the shards until ctx is cancelled, and the pages for as long as a shard runs.
func serve(ctx context.Context, shards []*pipeline.Shard, server *httpServer) error {
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
	var tails errgroup.Group
	for _, shard := range shards {
		tails.Go(func() error {
			err := shard.Run(running)
			if err != nil {
				// The process has to be restarted: the others end in good order.
				fail(err)
			}
			return err
		})
	}
	err := tails.Wait()
	closePages()
	if err := errors.Join(err, http.Wait()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
