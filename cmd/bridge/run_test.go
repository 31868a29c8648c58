package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
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

// TestAReloadOfOtherVariables: those of other programs are those of the configuration in force. One
// that is refused changes none, and one that the file does not have any more is unset.
func TestAReloadOfOtherVariables(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "bridge.env")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := map[string]string{}
	p := &process{stdout: t.Output(), stderr: t.Output(), environment: environment{
		environ: s.env.Environ(), secrets: &config.Redactor{},
		setenv:   func(name, value string) error { set[name] = value; return nil },
		unsetenv: func(name string) error { delete(set, name); return nil },
	}}
	is := func(when string, want map[string]string) {
		t.Helper()
		if !maps.Equal(set, want) {
			t.Errorf("%s: %v", when, set)
		}
	}
	p.daemon = func(ctx context.Context, o app.ProcessOptions) error {
		is("at the start", map[string]string{"AWS_ACCESS_KEY_ID": "old", "AWS_REGION": "r"})
		bridge, err := app.OpenProcess(ctx, o)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- bridge.Run(ctx) }()
		write("AWS_ACCESS_KEY_ID=new", "BRIDGE_DOMAIN_ID=other")
		if _, err := bridge.Reload(ctx); err == nil {
			t.Error("another domain is not refused")
		}
		is("behind a reload that is refused", map[string]string{"AWS_ACCESS_KEY_ID": "old", "AWS_REGION": "r"})
		write("AWS_REGION=q")
		if _, err := bridge.Reload(ctx); err != nil {
			t.Error(err)
		}
		is("behind a reload", map[string]string{"AWS_REGION": "q"})
		cancel()
		return errors.Join(<-ended, bridge.Close())
	}
	write("AWS_ACCESS_KEY_ID=old", "AWS_REGION=r")
	if status := p.run(t.Context(), []string{"run", "--env-file", path}); status != exitFine {
		t.Errorf("status %d", status)
	}
}

// TestAReloadAtAnAddressThatChanged: the command finds nobody at the address that the file has by
// now, and says what a reload that reached the bridge would say.
func TestAReloadAtAnAddressThatChanged(t *testing.T) {
	mustCall(t, newShop(t).env, exitFailed, "BRIDGE_HTTP_ADDR is the same here and there: if it was changed since bridge began, change it back, or restart bridge", "reload")
}
