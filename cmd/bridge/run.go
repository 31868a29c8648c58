package main

import (
	"context"
	"log/slog"
)

// runDaemon runs until ctx is cancelled.
func runDaemon(ctx context.Context, _ *Config, _ *slog.Logger) error {
	<-ctx.Done()
	return nil
}
