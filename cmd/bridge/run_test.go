package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"example.org/bridge/internal/app"
)

// TestASIGHUPBehindTheEnd of the daemon, before its process has ended, does not kill the process.
func TestASIGHUPBehindTheEnd(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runDaemon(ctx, app.ProcessOptions{Config: load(t, s.env), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
