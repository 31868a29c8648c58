package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"bridge/checkpoint"
	"bridge/internal/inspect"
	"bridge/source"
)

// examined runs bridge check on groups as if they had been found.
func examined(env settingsOf, groups []group, args ...string) outcome {
	var out, errs bytes.Buffer
	p := &process{environ: env.environ(), stdout: &out, stderr: &errs, openStore: openBolt, secrets: &redactor{}}
	p.examine = func(context.Context, *Config, *progress) []group { return groups }
	status := p.run(context.Background(), append([]string{"check"}, args...))
	return outcome{status: status, out: out.String(), err: errs.String()}
}

// groupsWith are groups of which the stream has findings.
func groupsWith(findings ...inspect.Finding) []group {
	return []group{
		{kind: "source", Report: inspect.Report{Summary: "MariaDB 11.8.3 at db:3306"}},
		{kind: "stream", name: "orders", Report: inspect.Report{Summary: "2 tables, ids strict", Findings: findings}},
	}
}

func found(severity inspect.Severity, subject string) inspect.Finding {
	return inspect.Finding{Severity: severity, Code: inspect.Stride, Subject: subject, What: "is " + severity.String(), Do: "mend it", Statement: "MEND " + subject + ";"}
}

func TestCheckStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		findings []inspect.Finding
		status   int
		out, err string
	}{
		{"nothing found", nil, 0, "\nnothing found: bridge run can be started\n", ""},
		{"notes and warnings", []inspect.Finding{found(inspect.Note, "a"), found(inspect.Warning, "a")}, 0, "\nnothing unsafe: 1 warning, 1 note\n", ""},
		{"something unsafe", []inspect.Finding{found(inspect.Unsafe, "a"), found(inspect.Unsafe, "b"), found(inspect.Note, "a")}, 1, "MEND b;", "1 unsafe finding:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := examined(minimal(), groupsWith(c.findings...))
			if got.status != c.status || !strings.Contains(got.out, c.out) || !strings.Contains(got.err, c.err) || c.err == "" && got.err != "" {
				t.Errorf("%+v", got)
			}
			if asJSON := examined(minimal(), groupsWith(c.findings...), "--json"); asJSON.status != c.status {
				t.Errorf("--json: %+v", asJSON)
			}
		})
	}
	t.Run("a wrong configuration", func(t *testing.T) {
		got := examined(with("BRIDGE_TYPO", "1", "BRIDGE_POLL_INTERVAL", "x"), groupsWith())
		if got.status != 2 || got.out != "" || strings.Count(got.err, "\n  BRIDGE_") != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCheckPrints(t *testing.T) {
	long := found(inspect.Warning, "orders_0")
	long.What = "says " + strings.Repeat("word ", 30) + "\x1b[2J\nat its end"
	groups := groupsWith(long, found(inspect.Unsafe, "orders_0"), found(inspect.Unsafe, "orders_1"))
	t.Run("in columns that fit a terminal, like findings once", func(t *testing.T) {
		got := examined(minimal(), groups).out
		want := "source         ok       MariaDB 11.8.3 at db:3306\n" +
			"stream orders  unsafe   2 tables, ids strict\n" +
			"    warning  orders_0 says word word word word word word word word word word\n" +
			"             word word word word word word word word word word word word word\n" +
			"             word word word word word word word [2J at its end. Mend it:\n" +
			"               MEND orders_0;\n" +
			"    unsafe   each of orders_0, orders_1 is unsafe. Mend it:\n" +
			"               MEND orders_0;\n" +
			"               MEND orders_1;\n"
		if got != want {
			t.Errorf("printed\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("a few of many statements", func(t *testing.T) {
		var many []inspect.Finding
		for i := range 64 {
			many = append(many, found(inspect.Note, fmt.Sprintf("t_%02d", i)))
		}
		got := examined(minimal(), groupsWith(many...)).out
		if strings.Count(got, "MEND") != mostStatements || !strings.Contains(got, "each of t_00, t_01, t_02 and 61 more is note") || !strings.Contains(got, "… and 60 more, see --json") {
			t.Errorf("printed\n%s", got)
		}
	})
	t.Run("all of them as JSON", func(t *testing.T) {
		var got struct {
			Severity string
			Groups   []struct {
				Group, Stream, Severity, Summary string
				Findings                         []struct{ Severity, Code, Subject, What, Do, Statement string }
			}
		}
		if err := json.Unmarshal([]byte(examined(minimal(), groups, "--json").out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Severity != "unsafe" || len(got.Groups) != 2 || got.Groups[0].Findings == nil || got.Groups[0].Severity != "ok" {
			t.Errorf("%+v", got)
		}
		stream := got.Groups[1]
		if stream.Stream != "orders" || len(stream.Findings) != 3 || stream.Findings[2].Statement != "MEND orders_1;" || stream.Findings[2].Code != "stride" {
			t.Errorf("%+v", stream)
		}
	})
	t.Run("what could not be looked at as such", func(t *testing.T) {
		skipped := groupsWith()
		skipped[1].skipped = true
		if got := examined(minimal(), skipped).out; !strings.Contains(got, "stream orders  -        2 tables") {
			t.Errorf("printed\n%s", got)
		}
		if got := examined(minimal(), skipped, "--json").out; !strings.Contains(got, `"severity": "skipped"`) {
			t.Errorf("printed\n%s", got)
		}
	})
	t.Run("no secret", func(t *testing.T) {
		leak := found(inspect.Unsafe, "login")
		leak.What = "refuses secret-of-source"
		for _, args := range [][]string{nil, {"--json"}} {
			if got := examined(minimal(), groupsWith(leak), args...); strings.Contains(got.out+got.err, "secret-of-source") || !strings.Contains(got.out, redacted) {
				t.Errorf("%+v", got)
			}
		}
	})
}

// terminal is a writer that looks like a terminal.
type terminal struct{ bytes.Buffer }

func (*terminal) Stat() (fs.FileInfo, error) { return os.Stat("/dev/null") }

func TestCheckColours(t *testing.T) {
	for _, c := range []struct {
		environ  []string
		coloured bool
	}{
		{[]string{"TERM=xterm"}, true},
		{[]string{"TERM=xterm", "NO_COLOR=1"}, false},
		{[]string{"TERM=xterm", "NO_COLOR="}, true},
		{[]string{"TERM=dumb"}, false},
	} {
		out := &terminal{}
		p := &process{environ: c.environ, stdout: out, secrets: &redactor{}}
		if err := p.printFindings(groupsWith(found(inspect.Unsafe, "a"))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\x1b[1;31munsafe\x1b[0m   "); got != c.coloured || got != strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v: printed %q", c.environ, out.String())
		}
	}
}

func TestProgress(t *testing.T) {
	out := &terminal{}
	p := &process{environ: []string{"TERM=xterm"}, stderr: out}
	if pr := p.newProgress(false); pr != nil {
		t.Error("shown although not wanted")
	}
	if pr := (&process{stderr: &bytes.Buffer{}}).newProgress(true); pr != nil {
		t.Error("shown in a file")
	}
	pr := p.newProgress(true)
	shown := make(chan struct{})
	pr.w = writerFunc(func(b []byte) (int, error) {
		if n, err := out.Write(b); n == 0 || err != nil {
			return n, err
		}
		select {
		case shown <- struct{}{}:
		default:
		}
		return len(b), nil
	})
	if err := pr.during("the sink", func() { within(t, shown, "a line") })(); err != nil {
		t.Error(err)
	}
	pr.stop()
	if got := out.String(); !strings.Contains(got, "looking at the sink") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("printed %q", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestStreamGroups(t *testing.T) {
	cfg := load(t, with("BRIDGE_STREAM_ORDERS_ID_ORDER", "auto", "BRIDGE_STREAM_ORDERS_START", "latest"))
	table := func(order source.IDOrder, findings ...inspect.Finding) source.TableInspection {
		return source.TableInspection{Order: order, Why: "because", Findings: findings}
	}
	at := func(shards ...string) map[checkpoint.Key]uint64 {
		positions := make(map[checkpoint.Key]uint64)
		for _, shard := range shards {
			positions[checkpoint.Key{Stream: "orders", Shard: shard}] = 7
		}
		return positions
	}
	for _, c := range []struct {
		name      string
		tables    []source.TableInspection
		known     bool
		positions map[checkpoint.Key]uint64
		want      string
	}{
		{"not reached", nil, true, nil, "2 tables, not looked at"},
		{"one order, no checkpoint", []source.TableInspection{table("strict"), table("strict")}, true, nil, "2 tables, ids strict (because), tail begins behind the latest row"},
		{"two orders, all checkpoints", []source.TableInspection{table("strict"), table("segmented")}, true, at("orders_0", "orders_1"),
			"2 tables, ids strict in 1 table, segmented in 1 table, tails go on behind their checkpoints"},
		{"a table that cannot be read, one checkpoint", []source.TableInspection{table(""), table("strict")}, true, at("orders_1"),
			"2 tables, ids strict (because), tails: 1 behind their checkpoints, 1 behind the latest row"},
		{"a checkpoint in use", []source.TableInspection{table("strict"), table("strict")}, false, nil, "2 tables, ids strict (because), tail goes on where the checkpoint says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups := streamGroups(cfg, source.Inspection{Tables: c.tables}, &checkpoint.Inspection{Known: c.known}, c.positions)
			if len(groups) != 1 || groups[0].Summary != c.want || groups[0].skipped != (c.tables == nil) {
				t.Errorf("%+v, want %q", groups, c.want)
			}
		})
	}
}

func TestExpectations(t *testing.T) {
	cfg := load(t, with("BRIDGE_STREAM_ORDERS_KEY", "a,b", "BRIDGE_STREAM_ORDERS_ID_ORDER", "segmented", "BRIDGE_STREAM_ORDERS_TIME_ZONE", "Asia/Shanghai"))
	tables := expectations(cfg, map[checkpoint.Key]uint64{{Stream: "orders", Shard: "orders_1"}: 5})
	if len(tables) != 2 || tables[0].Position != nil || tables[1].Position == nil || *tables[1].Position != 5 {
		t.Fatalf("%+v", tables)
	}
	if one := tables[1]; one.Spec.Table != "orders_1" || !one.Spec.UniqueKey || !one.Updates || one.Order != source.OrderSegmented || one.Zone.String() != "Asia/Shanghai" {
		t.Errorf("%+v", one)
	}
	release := expectations(load(t, with("BRIDGE_STREAM_ORDERS_KIND", "release")), nil)
	if release[0].Spec.UniqueKey || release[0].Updates || release[0].Order != "" {
		t.Errorf("%+v", release[0])
	}
}

func TestPublishedSubjects(t *testing.T) {
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{type}.{key}", "BRIDGE_DEAD_LETTER", "dead",
		"BRIDGE_STREAM_ORDERS_EVENT_NAMES", "added:OrderAddedMessage"))
	want := []string{"dead", "x.OrderAddedMessage.*", "x.OrdersDeletedEvent.*", "x.OrdersModifiedEvent.*"}
	if got := cfg.published(); !slices.Equal(got, want) {
		t.Errorf("published to %q, want %q", got, want)
	}
	if got := cfg.subjects(); !slices.Equal(got, []string{"dead", "x.*.*"}) {
		t.Errorf("a stream is created with %q", got)
	}
}

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		sink, stream, destination string
		known                     bool
		topic                     string
	}{
		{"kafka://k", "-", "x.{stream}", true, "x.orders"},
		{"nats://n", "S", "x.{type}.{key}", true, "S"},
		{"nats://n", "-", "x.{table}", true, ""},
		{"nats://n", "-", "x.{type}", false, ""},
		{"nats://n", "-", "x.{key}", false, ""},
	} {
		cfg := load(t, with("BRIDGE_SINK_URL", c.sink, "BRIDGE_NATS_STREAM", c.stream, "BRIDGE_STREAM_ORDERS_DESTINATION", c.destination))
		reaches := cfg.reaches(&cfg.Streams[0], cfg.Streams[0].Tables[0])
		if (reaches != nil) != c.known {
			t.Errorf("%s at %s: known %v, want %v", c.destination, c.sink, reaches != nil, c.known)
			continue
		}
		if c.known && (reaches("another") || c.topic != "" && !reaches(c.topic)) {
			t.Errorf("%s at %s reaches another topic, or not %q", c.destination, c.sink, c.topic)
		}
	}
}
