package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/check"
	"bridge/internal/config"
	"bridge/internal/inspect"
	"bridge/internal/shard"
	"bridge/source"
)

// startsWithin is how long the inspection of the source waits for shards that start: it asks of
// each table as much as a shard does at its start.
const startsWithin = 20 * time.Second

// awaitStart waits until no shard is starting any more, and no longer than startsWithin.
func awaitStart(ctx context.Context, shards []*shard.Shard) {
	starts := func(s *shard.Shard) bool { return s.Status().State == shard.Starting }
	pause := backoff.Backoff{Max: 100 * time.Millisecond}
	for began := time.Now(); time.Since(began) < startsWithin && slices.ContainsFunc(shards, starts); {
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// logFindings waits until the source can be reached, inspects it and its tables one after another,
// and logs each finding once per stream. It returns when it is done or ctx ends. Nothing waits for
// it.
func logFindings(ctx context.Context, cfg *config.Config, src source.Source, logger *slog.Logger) {
	inspector, ok := src.(source.Inspector)
	if !ok {
		return
	}
	pause := backoff.Backoff{First: time.Second, Max: 30 * time.Second}
	for src.Ready(ctx) != nil {
		if pause.Wait(ctx) != nil {
			return
		}
	}
	found := inspectGuarded(ctx, inspector, check.Expectations(cfg, nil), 1, logger)
	inspectRows(ctx, cfg, src, 1, &found)
	if ctx.Err() != nil || found.Tables == nil {
		// The shards log that the source is away again.
		return
	}
	logMerged(ctx, logger, inspect.Named(found.Server.Findings, config.Naming("")))
	rest := found.Tables
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		var findings []inspect.Finding
		for _, table := range rest[:len(s.Tables)] {
			findings = append(findings, table.Findings...)
		}
		rest = rest[len(s.Tables):]
		logMerged(ctx, logger.With("stream", s.Name), inspect.Named(findings, config.Naming(s.Name)))
	}
}

// logMerged logs notes as information and other findings as warnings. Findings that differ only in
// their subject share a line. It leaves out those that block a stream, because the log has them as
// the error that stopped the stream or as an outage.
func logMerged(ctx context.Context, logger *slog.Logger, findings []inspect.Finding) {
	for _, m := range check.Merge(findings) {
		if m.Blocks() {
			continue
		}
		level := slog.LevelWarn
		if m.Severity < inspect.Warning {
			level = slog.LevelInfo
		}
		args := []any{"code", m.Code, "severity", m.Severity.String(), "subject", m.SubjectText(), "finding", m.What}
		if m.Do != "" {
			args = append(args, "remedy", m.Do)
		}
		if len(m.Statements) > 0 {
			args = append(args, "statement", strings.Join(m.Statements[:min(len(m.Statements), check.MostStatements)], " "))
		}
		logger.Log(ctx, level, "finding about the source", args...)
	}
}
