package stage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Bridge is a process of bridge: the one with all tables, or that of a share.
type Bridge struct {
	// Share is that of the process, as in 0/3; empty without shares.
	Share string

	stage            *Stage
	address, folder  string
	log              bytes.Buffer
	process          *exec.Cmd
	killed, hasEnded chan struct{}
}

// startBridges starts bridge, which ends with ctx, and waits until all its processes are ready:
// they reach database and bus.
func (s *Stage) startBridges(ctx context.Context) error {
	s.env["BRIDGE_DOMAIN_ID"], s.env["BRIDGE_LOG_FORMAT"] = s.domain, "text"
	for i := range max(1, s.layout.Shares) {
		b := &Bridge{stage: s, folder: filepath.Join(s.Dir, fmt.Sprintf("bridge-%d.db", i))}
		if s.layout.Shares > 0 {
			b.Share = fmt.Sprintf("%d/%d", i, s.layout.Shares)
		}
		var err error
		if b.address, err = freeAddress(); err != nil {
			return err
		}
		s.Bridges = append(s.Bridges, b)
		if err := b.Start(ctx); err != nil {
			return err
		}
	}
	for _, b := range s.Bridges {
		if err := b.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the process, which ends with ctx.
func (b *Bridge) Start(ctx context.Context) error {
	env := []string{"BRIDGE_HTTP_ADDR=" + b.address}
	if b.Share == "" {
		env = append(env, "BRIDGE_CHECKPOINT_URL=file:"+b.folder)
	} else {
		env = append(env, "BRIDGE_CHECKPOINT_URL=bus://"+b.folder, "BRIDGE_CHECKPOINT_TOPIC="+b.stage.progress(), "BRIDGE_SHARE="+b.Share)
	}
	for name, value := range b.stage.env {
		if name != "BRIDGE_CHECKPOINT_URL" && name != "BRIDGE_SHARE" {
			env = append(env, name+"="+value)
		}
	}
	process := exec.CommandContext(ctx, cmp.Or(os.Getenv("EXAMPLE_BRIDGE"), "bin/bridge"), "run")
	process.Cancel, process.WaitDelay = func() error { return process.Process.Signal(syscall.SIGTERM) }, 20*time.Second
	process.Stdout, process.Stderr, process.Env = &b.log, &b.log, env
	if err := process.Start(); err != nil {
		return fmt.Errorf("%w: make build makes it, EXAMPLE_BRIDGE names another one", err)
	}
	killed, ended := make(chan struct{}), make(chan struct{})
	b.process, b.killed, b.hasEnded = process, killed, ended
	b.stage.Go(ctx, func(ctx context.Context) error {
		err := process.Wait()
		close(ended)
		select {
		case <-killed:
			return nil
		default:
		}
		if ctx.Err() == nil || !process.ProcessState.Success() {
			return fmt.Errorf("bridge %s has ended: %w", b.Share, cmp.Or(err, errors.New("too early")))
		}
		return nil
	})
	return nil
}

// Ready waits until the process is ready.
func (b *Bridge) Ready(ctx context.Context) error {
	return b.stage.Wait(ctx, strings.TrimSpace("a bridge that is ready "+b.Share), func() (bool, error) {
		answer, err := http.Get("http://" + b.address + "/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// Kill ends the process as kill -9 does and removes its folder, as the loss of its host would.
func (b *Bridge) Kill() error {
	close(b.killed)
	err := b.process.Process.Kill()
	<-b.hasEnded
	return errors.Join(err, os.RemoveAll(b.folder))
}

// Reload has the process read its configuration again and look for new tables at once.
func (b *Bridge) Reload() error { return b.process.Process.Signal(syscall.SIGHUP) }

// Running returns how many tables the process reads.
func (b *Bridge) Running() (tables int, err error) {
	answer, err := http.Get("http://" + b.address + "/api/v1/status?limit=1")
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var status struct {
		Totals struct{ States map[string]int }
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("read the status of bridge %s: %w", b.Share, err)
	}
	return status.Totals.States["running"], nil
}
