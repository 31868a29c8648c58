package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/inspect"
	"bridge/source"
)

// logFindings waits until the source can be reached, looks at it and its tables one after another, and logs each finding once a
// stream. It returns when that is done or ctx ends; nothing waits for it, and it changes nothing.
func logFindings(ctx context.Context, cfg *Config, src source.Source, logger *slog.Logger) {
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
	found := inspector.Inspect(ctx, expectations(cfg, nil), 1)
	if ctx.Err() != nil || found.Tables == nil {
		// A source that went away again shows in the log of its shards.
		return
	}
	logMerged(ctx, logger, found.Server.Findings)
	rest := found.Tables
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		var findings []inspect.Finding
		for _, table := range rest[:len(s.Tables)] {
			findings = append(findings, table.Findings...)
		}
		rest = rest[len(s.Tables):]
		logMerged(ctx, logger.With("stream", s.Name), findings)
	}
}

// logMerged logs findings, those that differ in their subject only in one line: notes as information, all others as warnings.
func logMerged(ctx context.Context, logger *slog.Logger, findings []inspect.Finding) {
	for _, m := range merge(findings) {
		level := slog.LevelWarn
		if m.Severity < inspect.Warning {
			level = slog.LevelInfo
		}
		logger.Log(ctx, level, "finding about the source", "code", m.Code, "severity", m.Severity.String(), "subject", m.subject(),
			"finding", m.What, "remedy", m.Do, "statement", strings.Join(m.statements[:min(len(m.statements), mostStatements)], " "))
	}
}
