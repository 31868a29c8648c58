package testenv

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Heal has a paused, killed or stopped process answer again. One that does not answer 15 s after it
// was resumed is killed first.
func (p *Process) Heal(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGCONT)
	if p.running() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if poll(ctx, func() error { return p.ready(ctx) }) == nil {
			return
		}
		p.Kill()
	}
	p.Start(t)
}

// Snapshot stops the process in good order, copies its data, starts it, and returns the folder of
// the copy, which is removed when the test ends.
func (p *Process) Snapshot(t testing.TB) string {
	t.Helper()
	p.Stop()
	copied := filepath.Join(t.TempDir(), "snapshot")
	if err := os.CopyFS(copied, os.DirFS(p.data)); err != nil {
		t.Fatalf("copy the data of %s: %v", p.name, err)
	}
	p.Start(t)
	return copied
}

// Restore kills the process, puts a copy made by Snapshot in place of its data and starts it.
func (p *Process) Restore(t testing.TB, snapshot string) {
	t.Helper()
	p.Kill()
	check(t, os.RemoveAll(p.data))
	if err := os.CopyFS(p.data, os.DirFS(snapshot)); err != nil {
		t.Fatalf("put back the data of %s: %v", p.name, err)
	}
	p.Start(t)
}
