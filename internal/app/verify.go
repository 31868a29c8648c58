package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"bridge/internal/config"
	"bridge/internal/verify"
	"bridge/source"
)

// Verify opens source and bus, and compares them. What it waits for is logged.
func Verify(ctx context.Context, cfg *config.Config, logger *slog.Logger, examples int, progress func(verify.Step)) (report *verify.Report, err error) {
	src, err := OpenSource(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	bus, err := OpenReading(ctx, cfg, Reading{cfg.Topics(), cfg.Readable(), "bridge verify", logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	shards, err := verifyShards(cfg, src)
	if err != nil {
		return nil, err
	}
	if examples == 0 {
		// None at all; zero would be the default.
		examples = -1
	}
	return verify.Run(ctx, verify.Options{Shards: shards, Bus: bus, Domain: cfg.DomainID, Examples: examples, Progress: progress})
}

// verifyShards returns every table with what its events look like.
func verifyShards(cfg *config.Config, src source.Source) ([]verify.Shard, error) {
	var shards []verify.Shard
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range s.Tables {
			encoder, err := cfg.Encoder(s, table)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			destination, err := cfg.Destination(s, table)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			shards = append(shards, verify.Shard{
				Stream: s.Name, Name: table, Kind: s.Kind, Source: src.Shard(s.Spec(table)), Encoder: encoder,
				Zone: s.TimeZone.Location, Window: s.StabilityWindow, Latest: s.Start.Latest, After: s.Start.After,
				Apart: len(s.Key) == 0, Hash: meaningHash(s), Destinations: []string{destination}, Text: config.StreamText(s.Name),
			})
		}
	}
	return shards, nil
}
