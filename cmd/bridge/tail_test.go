package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
)

// startDaemon runs a bridge in this process until stop, which waits for its end, or the end of the
// test.
func (s *shop) startDaemon() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended, cfg := make(chan error, 1), load(s.t, s.env)
	go func() { ended <- runDaemon(ctx, cfg, slog.New(slog.NewTextHandler(s.t.Output(), nil))) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(stop)
	for deadline := time.Now().Add(4 * time.Minute); ; {
		if got := (outcome{}).call(s.env, "health", "--ready"); got.status == exitFine {
			return stop
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the bridge does not get ready")
		}
		_ = backoff.Pause(ctx, 20*time.Millisecond)
	}
}

// lines has what a command prints, line by line.
func lines(t *testing.T, env settingsOf, args ...string) (out <-chan string, end func() int) {
	t.Helper()
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	printed, status := make(chan string, 1000), make(chan int, 1)
	go func() {
		p := &process{environ: env.Environ(), stdout: writer, stderr: writer, secrets: &config.Redactor{}}
		code := p.run(ctx, args)
		_ = writer.Close()
		status <- code
	}()
	go func() {
		defer close(printed)
		for text := bufio.NewScanner(reader); text.Scan(); {
			printed <- text.Text()
		}
	}()
	return printed, func() int { cancel(); return <-status }
}

// TestTailCommand by a bridge that runs: events as they go by, and masked values as they are on the
// bus.
func TestTailCommand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("ALTER TABLE orders ADD COLUMN secret TEXT")
	s.exec("ALTER TABLE orders ADD COLUMN created INTEGER")
	s.env["BRIDGE_STREAM_ORDERS_MASK"], s.env["BRIDGE_STREAM_ORDERS_CREATED"] = "secret:redact", "created"
	stop := s.startDaemon()
	text, endText := lines(t, s.env, "tail", "orders")
	if head := <-text; !strings.HasPrefix(head, "TIME ") || !strings.HasSuffix(head, " ID") {
		t.Fatal(head)
	}
	objects, _ := lines(t, s.env, "tail", "--json")
	// It prints nothing before the first event.
	for seen := ""; !strings.Contains(seen, `"key":"ready"`); {
		s.exec("INSERT OR IGNORE INTO orders (name, total) VALUES ('ready', 1)")
		s.exec("UPDATE orders SET id = (SELECT max(id) + 1 FROM orders), total = total + 1 WHERE name = 'ready'")
		select {
		case seen = <-objects:
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.exec("INSERT INTO orders (name, total, secret, created) VALUES ('new', 7, 'hunter2-pass', unixepoch() - 60)")
	line := <-text
	for !strings.Contains(line, "  new  ") {
		line = <-text
	}
	if !strings.Contains(line, "  OrdersAddedEvent  ") || !strings.Contains(line, "  tail  ") || strings.Contains(line, "  -  ") || strings.Contains(line, "hunter2") {
		t.Errorf("got %s", line)
	}
	var one httpapi.TailEvent
	for one.Key != "new" {
		text := <-objects
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if !strings.Contains(string(one.Value), `"secret":"****"`) || one.Shard != "orders" || !strings.HasSuffix(line, one.ID) || one.DelaySeconds == nil || *one.DelaySeconds < 60 {
		t.Errorf("got %s", one.Value)
	}
	if got := endText(); got != exitFine {
		t.Errorf("interrupted, it ends with status %d", got)
	}
	s.call(exitFailed, "no such stream as \"order\": there are orders", "tail order")
	stop()
	last := ""
	for last = range objects {
	}
	if !strings.Contains(last, "the tail has ended") {
		t.Errorf("the bridge ends, and the tail says %s", last)
	}
	s.call(exitFailed, "connection refused", "tail")
}

// TestTailLine is for people.
func TestTailLine(t *testing.T) {
	delay := 0.25
	e := httpapi.TailEvent{Shard: "t_0", Type: "OrderAddedEvent", Key: "a\x1b", Origin: "late", ID: "id-1", DelaySeconds: &delay, DeadLetter: true}
	if got := strings.Join(strings.Fields(tailLine(&httpapi.TailItem{Event: &e})), " "); !strings.HasSuffix(got, "t_0 OrderAddedEvent a late 0.2 s id-1 refused by the bus, a dead letter") {
		t.Errorf("got %q", got)
	}
	if got := tailLine(&httpapi.TailItem{LeftOut: 120}); got != "… 120 events left out\n" {
		t.Errorf("got %q", got)
	}
	for s, want := range map[float64]string{0: "0.0 s", 99.94: "99.9 s", 150: "2 min", 5400: "90 min", 200000: "56 h", 1e6: "12 d"} {
		if got := seconds(s); got != want {
			t.Errorf("%v s is %q, want %q", s, got, want)
		}
	}
}
