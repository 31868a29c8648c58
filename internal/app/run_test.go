package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
)

// sharedLog is a log that several goroutines write.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// until waits for a condition. It fails the test after four minutes, with what state says.
func until(t *testing.T, what string, state func() any, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s: %v", what, state())
		}
	}
}

// runner is an App or a Process.
type runner interface {
	Run(context.Context) error
	Close() error
}

// start runs an app or a process. stop ends it and closes it.
func start(t *testing.T, a runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	}
}

// runUntil runs an app until its log has a text, and ends it in good order.
func runUntil(t *testing.T, cfg *config.Config, log *sharedLog, text string) {
	t.Helper()
	a, err := OpenProcess(t.Context(), ProcessOptions{Config: cfg, Logger: slog.New(slog.NewTextHandler(log, nil)), Build: build})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, a)
	until(t, "the log has "+text, func() any { return log.String() }, func() bool { return strings.Contains(log.String(), text) })
	stop()
}

// TestTheLogOfAHealthyRun: it says what was read from the bus, where the stream begins, when it has
// caught up and what a stop waits for, and nothing twice.
func TestTheLogOfAHealthyRun(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	log := new(sharedLog)
	cfg := load(t, s.Env)
	runUntil(t, cfg, log, "caught up")
	seen := make(map[string]int)
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(line, "msg=")
		seen[rest]++
		if seen[rest] > 1 {
			t.Errorf("logged twice: %s", line)
		}
		if strings.Contains(line, `=""`) {
			t.Errorf("an empty attribute: %s", line)
		}
	}
	for _, want := range []string{
		`msg="bridge runs" version=1.2.3 streams=1 shards=1`, "checkpoint=" + filepath.Dir(cfg.CheckpointPath),
		`msg="the bus was read" streams=1 stopped=0 messages=0`, `msg="stream begins" stream=orders shard=orders position=0`, `msg="caught up" stream=orders shard=orders published=60 position=60 after=`,
		`msg="stopping, Ctrl-C again stops at once, nothing is lost" timeout=10s`, `msg="bridge ended"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}
