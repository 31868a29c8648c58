package app

import (
	"context"
	"log/slog"
	"slices"

	"bridge/internal/config"
	"bridge/internal/inspect"
	"bridge/internal/option"
)

// inspectCopies finds what keeps progress from the bus, where it is kept there and the bus can be
// reached.
func inspectCopies(ctx context.Context, cfg *config.Config, r *inspect.Report) {
	unreached := func(f inspect.Finding) bool { return f.Code == inspect.SinkUnreachable || f.Code == inspect.SinkLogin }
	if cfg.CheckpointTopic == "" || slices.ContainsFunc(r.Findings, unreached) {
		return
	}
	bus, err := openCopyBus(cfg, slog.New(slog.DiscardHandler), 0)
	if err != nil {
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "progress on the bus", "cannot be opened: "+config.Text(err)).Says("correct %s", option.CheckpointURL)
		return
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = bus.Close() }()
	found := bus.Inspect(ctx)
	r.Findings = append(r.Findings, found.Findings...)
	r.Summary += "; progress in " + cfg.CheckpointTopic
}
