package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/reconcile"
)

func TestStatusCommand(t *testing.T) {
	lag, left, since := 1.25, 7.0, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := httpapi.Status{
		Started: since, Delivery: "at-least-once",
		Streams: []httpapi.StreamStatus{{Name: "orders", Shards: []shard.Status{
			{Shard: "t_0", State: "running", Position: 17, Highest: 20, LagSeconds: &lag, Traffic: shard.Traffic{Published: shard.Published{RowsPerSecond: 12.3}}, Backlog: &shard.Backlog{IDs: 3, Percent: 85, SecondsLeft: &left}, Gaps: shard.Gaps{Hot: 3, InFlight: 1, Cold: 9, OldestSeconds: 130}, Reconcile: &reconcile.Status{}}, {Shard: "t_1", State: "waiting", Gaps: shard.Gaps{Hot: 914360389402118191}, Reason: "no such\ntable", Remedy: "create it"},
		}}},
	}
	at := httpapitest.Serve(t, &httpapitest.Daemon{State: state})
	got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at}, "status")
	want := `runs since 2026-01-02T03:04:05Z, at-least-once
2 tables: 1 running, 1 waiting

STREAM  TABLE  STATE    POSITION  LAG      ROWS/S  MISSING     RECONCILED
orders  t_0    running  17        1.2 s    12      12          not yet
orders  t_1    waiting  0         unknown  0       over 10^17  -

orders t_1, waiting
  no such table
  create it

orders t_0, backlog
  3 ids up to 20, 85 % done, 7.0 s left

orders t_0, missing ids
  2 looked for at every poll; 1 pending: a transaction that is open has
  inserted them; 9 looked for every minute; the oldest for 2 min

orders t_1, missing ids
  over 10^17 looked for at every poll
`
	if got.status != exitFine || got.out != want {
		t.Errorf("%+v", got)
	}
	if text := gapsText(&shard.Status{Gaps: shard.Gaps{Hot: 1, InFlight: 1}}); text != "1 pending: a transaction that is open has inserted them" {
		t.Errorf("one id that is pending shows as %q", text)
	}
	state.Standby = &standby.Status{Group: "g"}
	var read httpapi.Status
	asJSON := mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, &httpapitest.Daemon{State: state})}, exitFine, "", "status --json")
	if err := json.Unmarshal([]byte(asJSON.out), &read); err != nil || read.Standby.Group != "g" {
		t.Errorf("%v, %+v", err, asJSON)
	}
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:1"}, exitFailed, "127.0.0.1:1", "status")
}

// TestStatusOfSome shows the stream and the state that are asked for, and no detail of many tables.
func TestStatusOfSome(t *testing.T) {
	state := httpapi.Status{Started: time.Now(), Streams: []httpapi.StreamStatus{{Name: "stock", State: "stopped", Shards: []shard.Status{{Shard: "stock", State: "stopped"}}}, {Name: "orders", State: "stopped"}}}
	for i := range 30 {
		state.Streams[1].Shards = append(state.Streams[1].Shards, shard.Status{Shard: fmt.Sprintf("t_%02d", i), State: "running", Gaps: shard.Gaps{Cold: 1}})
	}
	state.Streams[1].Shards[17].State, state.Streams[1].Shards[17].Reason = "stopped", "no such table"
	env := settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, &httpapitest.Daemon{State: state})}
	const all, details = "31 tables: 29 running, 2 stopped", "looked for every minute"
	for _, c := range []struct {
		line          string
		has, lacks    []string
		status, lines int
	}{
		{"status", []string{all, "t_00", "t_17", "stock", "no such table"}, []string{details}, 0, 38},
		{"status --stream stock", []string{all, "stock "}, []string{"t_17"}, 0, 5},
		{"status --stream orders --state stopped", []string{all, "t_17", "no such table", details}, []string{"t_00", "stock"}, 0, 11},
		{"status --state stopped", []string{"t_17", "stock "}, []string{"t_00"}, 0, 12},
		{"status --state waiting", []string{all}, []string{"t_17"}, 0, 4},
		{"status --state lost", []string{"state must be one of stopped, degraded"}, nil, 1, 1},
		{"status --stream none", []string{`no stream "none"`}, nil, 1, 1},
	} {
		got := outcome{}.call(env, strings.Fields(c.line)...)
		text := got.out + got.err
		for _, one := range c.has {
			if !strings.Contains(text, one) {
				t.Errorf("%s lacks %q: %s", c.line, one, text)
			}
		}
		for _, one := range c.lacks {
			if strings.Contains(text, one) {
				t.Errorf("%s has %q: %s", c.line, one, text)
			}
		}
		if got.status != c.status || strings.Count(text, "\n") != c.lines {
			t.Errorf("%s: status %d, %d lines: %s", c.line, got.status, strings.Count(text, "\n"), text)
		}
	}
	if got := mustCall(t, env, exitFine, "", "status --json --stream stock"); strings.Contains(got.out, "t_17") {
		t.Error("as JSON it shows another stream")
	}
}

// TestStatusTextOfAStandby says which process works, and why one that waits does not.
func TestStatusTextOfAStandby(t *testing.T) {
	since, differing := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []string{"A", "B"}
	for want, s := range map[string]standby.Status{
		"this process, m1 on h1, works since 2026-01-02T03:04:05Z\n":                 {Works: true, Since: null.At(since)},
		"this process, m1 on h1, waits; m2 on h2 works since 2026-01-02T03:04:05Z\n": {Working: "m2", WorkingHost: "h2", Since: null.At(since)},
		"waits; who works is not known now\n  no answer\n":                           {Error: "no answer"},
		"it is refused, because these differ: A, B\n":                                {Working: "m2", Differing: differing},
		"works\n  m2 on h2 waits, ready\n  m3 on h3 waits, refused, because these differ: A, B\n": {
			Works: true, Waiting: []standby.Waiting{{Member: "m1", Host: "h1"}, {Member: "m2", Host: "h2", Ready: true}, {Member: "m3", Host: "h3", Differing: differing}},
		},
		"works\n  m4 on h4 waits, not ready: it has not read the bus to its end\n": {Works: true, Waiting: []standby.Waiting{{Member: "m4", Host: "h4"}}},
	} {
		s.Group, s.Member, s.Host = "g", "m1", "h1"
		if got := statusText(&httpapi.Status{Standby: &s}, since); !strings.Contains(got, "standby group g: ") || !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestStatusText says why something does not run, and when it was compared last.
func TestStatusText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := null.At(now.Add(-90 * time.Second))
	shardIs := func(s shard.Status) httpapi.StreamStatus {
		s.Shard = "t_0"
		return httpapi.StreamStatus{Name: "orders", CatchUp: catchup.StreamProgress{Ready: true}, Shards: []shard.Status{s}}
	}
	for name, c := range map[string]struct {
		stream httpapi.StreamStatus
		want   string
	}{
		"a table that has stopped": {shardIs(shard.Status{State: "stopped", Reason: "ids are used again", Remedy: "bridge checkpoint\nreset orders"}),
			"\norders t_0, stopped\n  ids are used again\n  bridge checkpoint reset orders\n"},
		"a fault that is over":         {shardIs(shard.Status{State: "running", LastError: "a deadlock"}), "it runs; the last fault was: a deadlock\n"},
		"a reconcile under way":        {shardIs(shard.Status{Reconcile: &reconcile.Status{Running: true, Progress: reconcile.Progress{Percent: 41.7}}}), "42 % done\n"},
		"one that was cut short":       {shardIs(shard.Status{Reconcile: &reconcile.Status{LastRun: &reconcile.Report{}}}), "cut short\n"},
		"one before this process":      {shardIs(shard.Status{Reconcile: &reconcile.Status{Progress: reconcile.Progress{Result: reconcile.Result{EndedAt: ended}}}}), "90.0 s ago\n"},
		"one that has found something": {shardIs(shard.Status{Reconcile: &reconcile.Status{Progress: reconcile.Progress{Result: reconcile.Result{EndedAt: ended, Verdict: reconcile.Verdict{Added: 1, Deleted: 2}}}, LastRun: &reconcile.Report{}}}), "90.0 s ago, 3 differed\n"},
		"a stream that catches up": {httpapi.StreamStatus{Name: "orders", CatchUp: catchup.StreamProgress{Messages: 7, Left: 100, SecondsLeft: 12}},
			"\norders\n  catches up from the bus: 7 messages read, 100 offsets left, about 12.0 s\n"},
		"a stream that cannot": {httpapi.StreamStatus{Name: "orders", CatchUp: catchup.StreamProgress{Error: "no grant"}}, "\norders\n  does not catch up from the bus: no grant\n"},
	} {
		if got := statusText(&httpapi.Status{Streams: []httpapi.StreamStatus{c.stream}}, now); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got\n%s\nwant at its end\n%s", name, got, c.want)
		}
	}
}

// TestStatusTextNamesOutages says since when and why a dependency does not answer.
func TestStatusTextNamesOutages(t *testing.T) {
	since, yes, no := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), true, false
	got := statusText(&httpapi.Status{
		Source: &httpapi.DependencyStatus{Answers: &yes},
		Bus:    &httpapi.DependencyStatus{Answers: &no, Since: null.At(since), Error: "refused\nthere"},
		// It was not saved yet.
		Checkpoint: &httpapi.DependencyStatus{},
		Progress:   &httpapi.DependencyStatus{Answers: &no},
	}, since)
	const remedy = "  bridge retries until the outage ends; bridge check says what to do\n"
	want := "\nthe bus does not answer, since 2026-01-02T03:04:05Z\n  refused there\n" + remedy +
		"\nthe progress cannot be saved on the bus\n  no error is known\n" + remedy
	if !strings.HasSuffix(got, "RECONCILED\n"+want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
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
