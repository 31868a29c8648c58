package app

import (
	"context"
	"errors"
	"log/slog"

	"bridge/checkpoint/store"
	"bridge/internal/config"
	"bridge/internal/inspect"
	"bridge/internal/lineage"
	"bridge/internal/option"
	"bridge/sink"
	"bridge/source"
)

// inspectLineage compares the tables of the source with what the bus has of them, as a start does.
// It says nothing about what cannot be read: the inspections of source and bus do.
func inspectLineage(ctx context.Context, cfg *config.Config, since map[store.Key]uint64) (r inspect.Report) {
	if cfg.Sink.Scheme == "embedded" {
		// Opening it would start a server.
		return r
	}
	quiet := slog.New(slog.DiscardHandler)
	src, err := OpenSource(cfg, quiet)
	if err != nil {
		return r
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = src.Close() }()
	bus, err := openSink(cfg, quiet, hooks{})
	if err != nil {
		return r
	}
	defer func() { _ = bus.Close() }()
	reader, able := bus.(sink.Reader)
	if !able {
		return r
	}
	other, found := errors.AsType[*lineage.OtherError](compareAll(ctx, cfg, reader, src, since))
	if found {
		r.Add(inspect.Unsafe, inspect.OtherDatabase, "source", "is not the database that the rows on the bus were read from: "+other.What()).Says(other.Remedy(), option.DomainID)
	}
	return r
}

// compareAll compares all streams once.
func compareAll(ctx context.Context, cfg *config.Config, reader sink.Reader, src source.Source, since map[store.Key]uint64) error {
	o := lineage.Options{Reader: reader, Streams: lineageStreams(cfg), Table: tableOf(cfg, src)}
	o.Most = func(context.Context, string) uint64 { return mostMessages }
	o.Since = func(_ context.Context, stream string) (map[string]uint64, error) {
		of := make(map[string]uint64)
		for key, epoch := range since {
			if key.Stream == stream {
				of[key.Shard] = epoch
			}
		}
		return of, nil
	}
	o.Retry = func(_ context.Context, do func() error) error {
		// A table that cannot be read shows nothing.
		_ = do()
		return nil
	}
	return lineage.NewCheck(o).All(ctx)
}
