package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.org/bridge/internal/config"
)

// runDemo runs the demo in this process, with a temporary folder and an environment of its own,
// until it has printed all words, and returns what it printed and what it left in the folder.
func runDemo(t *testing.T, words, env []string, args ...string) (status int, out, errs string, left []string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if words == nil {
		cancel()
	}
	stdout, stderr := &interrupting{words: words, cancel: cancel}, new(bytes.Buffer)
	status = newProcess(env, stdout, stderr).run(ctx, append([]string{"demo"}, args...))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, filepath.Join(dir, e.Name()))
	}
	return status, stdout.text.String(), stderr.String(), left
}

var summary = regexp.MustCompile(`(?s)\nwritten    [1-9]\d* changes in [^\n]+\nreceived   [1-9]\d* events: tail \d+, late [1-9]\d*, second cursor [1-9]\d*, reconcile \d+
latency    p50 \d+m?s, p99 \d+m?s from COMMIT to the screen, reconcile apart\n.*
bus: [1-9]\d* messages.*\nstream products: .*\nstream stock: .*\nstream orders: .*\nnothing is wrong, as far as it can be judged\n$`)

// TestDemo publishes events of all kinds, prints how to subscribe, verifies, and keeps its folder.
func TestDemo(t *testing.T) {
	// What is wrong in the environment is none of its business.
	env := []string{"BRIDGE_SOURCE_URL=nonsense", "BRIDGE_UNKNOWN=1", "BRIDGE_POLL_INTERVAL=x"}
	words := []string{"ProductAddedEvent", "ProductModifiedEvent", "StockAddedEvent", "OrderPublishedEvent", " late ", " edit ", "never sees it"}
	status, out, errs, left := runDemo(t, words, env, "--for", "2m", "--keep")
	if status != 0 || !summary.MatchString(out) || strings.Contains(out, "\x1b") || len(left) != 1 || !strings.Contains(out, "kept       "+left[0]) {
		t.Fatalf("status %d, left %v: %s\n%s", status, left, errs, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in\n%s", word, out)
		}
	}
	if !regexp.MustCompile(`nats sub 'eiffel\.>' -s nats://127\.0\.0\.1:\d+\n`).MatchString(out) {
		t.Errorf("it does not say how to subscribe\n%s", out)
	}
	text, err := os.ReadFile(filepath.Join(left[0], "bridge.env"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(strings.Split(strings.TrimSpace(string(text)), "\n"), &config.Redactor{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.Sources[0].Addr); err != nil {
		t.Error(err)
	}
}

// interrupting cancels a context once it has got all words.
type interrupting struct {
	text   bytes.Buffer
	words  []string
	cancel context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if !slices.ContainsFunc(w.words, func(word string) bool { return !bytes.Contains(w.text.Bytes(), []byte(word)) }) {
		w.cancel()
	}
	return n, err
}

// TestDemoInterrupted: before it begins, at its first event, and by a pipe that goes away it ends
// with status 0, and nothing is left.
func TestDemoInterrupted(t *testing.T) {
	status, _, errs, left := runDemo(t, nil, nil)
	if status != 0 || errs != "" || len(left) > 0 {
		t.Errorf("status %d: %s, left %v", status, errs, left)
	}
	if status, out, errs, left := runDemo(t, []string{"AddedEvent "}, nil); status != 0 || len(left) > 0 {
		t.Errorf("status %d, left %v, %s\n%s", status, left, errs, out)
	}
	var broken bytes.Buffer
	if status := newProcess(nil, brokenPipe{}, &broken).run(t.Context(), []string{"demo"}); status != 0 || broken.Len() > 0 {
		t.Errorf("status %d: %s", status, broken.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

func TestDemoSaysWhatIsWrong(t *testing.T) {
	t.Run("no temporary folder", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
		var out, errs bytes.Buffer
		if status := newProcess(nil, &out, &errs).run(t.Context(), []string{"demo"}); status != 1 || !strings.Contains(errs.String(), "set TMPDIR") {
			t.Errorf("status %d: %s", status, errs.String())
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		for _, full := range []error{syscall.ENOSPC, errors.New("commit: database or disk is full (13)")} {
			if err := explainDemo(full, "/tmp/x"); !strings.Contains(err.Error(), "no room on the disk of /tmp") || !errors.Is(err, full) {
				t.Errorf("%v", err)
			}
		}
	})
}
