package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/tests/must"
)

// TestStatusText has statuses with what a person sees of them.
func TestStatusText(t *testing.T) {
	configtest.Recorded(t, "testdata/status.txt", *update, func(t *testing.T, input []string) string {
		var status httpapi.Status
		must.OK(t, json.Unmarshal([]byte(input[0]), &status))
		return statusText(&status, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	})
}

func TestStatusCommand(t *testing.T) {
	state := httpapi.Status{Started: time.Now(), Standby: &standby.Status{Group: "g"}}
	var read httpapi.Status
	asJSON := mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, &httpapitest.Daemon{State: state})}, exitFine, "", "status --json")
	if err := json.Unmarshal([]byte(asJSON.out), &read); err != nil || read.Standby.Group != "g" {
		t.Errorf("%v, %+v", err, asJSON)
	}
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:1"}, exitFailed, "127.0.0.1:1", "status")
}

// TestStatusWatch goes on while there is no answer, and says so.
func TestStatusWatch(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var w statusWatch
	status := httpapi.Status{Delivery: "at-least-once"}
	for i, c := range []struct {
		err  error
		want string
	}{
		{errors.New("refused\nthere"), "no answer since 03:04:05, asking again: refused there\n"},
		{nil, "runs since "},
		{errors.New("refused"), "no answer since 03:04:09, asking again: refused\n\nat 03:04:07 it was:\n\nruns since "},
		{errors.New("no answer"), "no answer since 03:04:09, asking again: no answer\n\nat 03:04:07 it was:\n\nruns since "},
		{nil, "runs since "},
	} {
		text, object := w.next(&status, c.err, at.Add(time.Duration(i)*2*time.Second))
		if asJSON, err := json.Marshal(object); err != nil || !strings.HasPrefix(text, c.want) || strings.Contains(string(asJSON), `"error":"`) != (c.err != nil) {
			t.Errorf("%d: %q and %s, want %q", i, text, asJSON, c.want)
		}
	}
	_, object := w.next(nil, errors.New("refused"), at)
	if got, err := json.Marshal(object); err != nil || string(got) != `{"error":"refused","since":"2026-01-02T03:04:05Z"}` {
		t.Errorf("%s, %v", got, err)
	}
	t.Run("by the command, until it is interrupted", func(t *testing.T) {
		out, end := lines(t, settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, &httpapitest.Daemon{State: httpapi.Status{Started: at, Delivery: "at-least-once"}})}, "status", "--watch")
		if line := <-out; line != "runs since 2026-01-02T03:04:05Z, at-least-once" {
			t.Error(line)
		}
		if got := end(); got != exitFine {
			t.Errorf("status %d", got)
		}
		out, end = lines(t, settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:1"}, "status", "--watch")
		if line := <-out; !strings.HasPrefix(line, "no answer since ") {
			t.Error(line)
		}
		if got := end(); got != exitFine {
			t.Errorf("status %d", got)
		}
	})
}

// startDaemon runs a bridge in this process until stop, which waits for its end, or the end of the
// test.
func (s *shop) startDaemon() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended, cfg := make(chan error, 1), load(s.t, s.env)
	go func() {
		ended <- runDaemon(ctx, app.ProcessOptions{
			Config: cfg, Logger: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
			Load: func() (*config.Config, error) { return config.Load(s.env.Environ(), &config.Redactor{}) },
		})
	}()
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
		p := &process{environment: environment{environ: env.Environ(), secrets: &config.Redactor{}}, stdout: writer, stderr: writer}
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

// TestRepublishLine: how far a request is shows where its last id is known.
func TestRepublishLine(t *testing.T) {
	for _, c := range []struct {
		asked     *stream.Republish
		want, end string
	}{
		{&stream.Republish{From: 101, To: 200, Cursor: 150, State: stream.Republishing}, "t  running  50 %  ids 101 to 200, asked", ""},
		{&stream.Republish{From: 1, To: math.MaxUint64, Cursor: 1 << 63, State: stream.Republishing}, "t  running  ids from 1 on, asked", ""},
		{&stream.Republish{Keys: []string{"a", "b"}, Cursor: 1, State: stream.Republishing}, "t  running  50 %  2 keys, asked", ": no events again, 0 of rows that had changed"},
		{&stream.Republish{Keys: []string{"a", "b"}, Cursor: 2, State: stream.RepublishDone, Rows: 1}, "t  done 100 %  2 keys, asked", ", nothing for 1 key"},
		{&stream.Republish{Keys: []string{"a", "b"}, Cursor: 2, State: stream.RepublishDone, Rows: 1, Changed: 1}, "t  done 100 %  2 keys, asked", ": 1 event again, 1 of rows that had changed"},
		{&stream.Republish{From: 1, To: math.MaxUint64, State: stream.RepublishDone, Refused: 1}, "t  done 100 %  ids from 1 on, asked", "dead letters: 1"},
	} {
		if got := republishLine("t", shard.RepublishStatusOf(c.asked)); !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, c.end) {
			t.Errorf("%+v: %s", c.asked, got)
		}
	}
	if err := (&httpapi.RepublishRequest{Keys: []string{"a", ""}}).Check(); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("an empty key: %v", err)
	}
}

func TestTailLine(t *testing.T) {
	delay := 0.25
	e := httpapi.TailEvent{Shard: "t_0", Type: "OrderAddedEvent", Key: "a\x1b", Origin: "late", ID: "id-1", DelaySeconds: &delay, DeadLetter: true}
	if got := strings.Join(strings.Fields(tailLine(&httpapi.TailItem{Event: &e}, false)), " "); !strings.HasSuffix(got, "t_0 OrderAddedEvent a late 0.2 s id-1 refused by the bus, a dead letter") {
		t.Errorf("got %q", got)
	}
	e.Type, e.Key = "OrderCapabilityModifiedEvent", "a+rather+long+key"
	if got := tailLine(&httpapi.TailItem{Event: &e}, true); !strings.HasSuffix(got, "  t_0             OrderCapabilityModifi…  a+rather+…  refused     0.2 s\n") || len([]rune(got)) != 80 {
		t.Errorf("narrow %q", got)
	}
	if got := tailLine(&httpapi.TailItem{LeftOut: 120}, false); got != "… 120 events left out\n" {
		t.Errorf("got %q", got)
	}
	for s, want := range map[float64]string{0: "0.0 s", 99.94: "99.9 s", 150: "2 min", 5400: "90 min", 200000: "56 h", 1e6: "12 d"} {
		if got := seconds(s); got != want {
			t.Errorf("%v s is %q, want %q", s, got, want)
		}
	}
}
