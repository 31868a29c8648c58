package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
)

// examined runs bridge check on groups as if they had been found.
func examined(env settingsOf, groups []check.Group, args ...string) outcome {
	var out, errs bytes.Buffer
	p := &process{environment: environment{environ: env.Environ(), secrets: &config.Redactor{}}, stdout: &out, stderr: &errs}
	p.examine = func(context.Context, *config.Config) []check.Group { return groups }
	status := p.run(context.Background(), append([]string{"check"}, args...))
	return outcome{status: status, out: out.String(), err: errs.String()}
}

// groupsWith are groups of which the stream has findings.
func groupsWith(findings ...inspect.Finding) []check.Group {
	return []check.Group{
		{Kind: "source", Report: inspect.Report{Summary: "MariaDB 11.8.3 at db:3306"}},
		{Kind: "stream", Name: "orders", Report: inspect.Report{Summary: "2 tables, ids strict", Findings: findings}},
	}
}

func found(severity inspect.Severity, subject string) inspect.Finding {
	return inspect.Finding{Severity: severity, Code: inspect.Stride, Subject: subject, What: "is " + severity.String(), Do: "fix it", Statement: "FIX " + subject + ";"}
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
		{"something unsafe", []inspect.Finding{found(inspect.Unsafe, "a"), found(inspect.Unsafe, "b"), found(inspect.Note, "a")}, 1, "blocks   each of a, b", "1 finding marked blocks"},
		{"something that may lose events", []inspect.Finding{{Severity: inspect.Unsafe, Code: inspect.IDOrder, Subject: "a", What: "is unsafe"}}, 1, "unsafe   a is unsafe", "1 finding marked unsafe, with which it may lose"},
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

func TestCheckPrintsNoSecret(t *testing.T) {
	leak := found(inspect.Unsafe, "login")
	leak.What = "refuses secret-of-source"
	for _, args := range [][]string{nil, {"--json"}} {
		if got := examined(minimal(), groupsWith(leak), args...); strings.Contains(got.out+got.err, "secret-of-source") || !strings.Contains(got.out, "[redacted]") {
			t.Errorf("%+v", got)
		}
	}
}

// screen is a writer that looks like a terminal.
type screen struct{ bytes.Buffer }

func (*screen) Stat() (fs.FileInfo, error) { return os.Stat("/dev/null") }

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
		out := &screen{}
		p := &process{environment: environment{environ: c.environ, secrets: &config.Redactor{}}, stdout: out}
		text := check.Text(groupsWith(found(inspect.Unsafe, "a")), p.colourful())
		if got := strings.Contains(text, "\x1b[1;31mblocks\x1b[0m   "); got != c.coloured || got != strings.Contains(text, "\x1b") {
			t.Errorf("%v: printed %q", c.environ, text)
		}
	}
}

func TestProgressIsShownOnATerminalAlone(t *testing.T) {
	p := &process{environment: environment{environ: []string{"TERM=xterm"}}, stderr: &screen{}}
	if p.newBar(false) != nil || p.newLine(false) != nil {
		t.Error("shown although not wanted")
	}
	if p.newBar(true) == nil || p.newLine(true) == nil {
		t.Error("not shown on a terminal")
	}
	p = &process{stderr: &bytes.Buffer{}}
	if p.newBar(true) != nil {
		t.Error("shown in a file")
	}
}
