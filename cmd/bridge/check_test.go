package main

import (
	"bytes"
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
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/tests/must"
)

// examined runs bridge check on groups as if they had been found.
func examined(env settingsOf, groups []check.Group, args ...string) outcome {
	var out, errs bytes.Buffer
	p := &process{environment: environment{environ: env.Environ(), secrets: &config.Redactor{}}, stdout: &out, stderr: &errs}
	p.examine = func(context.Context, *config.Config) []check.Group { return groups }
	status := p.run(context.Background(), append([]string{"check"}, args...))
	return outcome{status: status, out: out.String(), err: errs.String()}
}

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
		out := new(fakeTerminal)
		p := &process{environment: environment{environ: c.environ, secrets: &config.Redactor{}}, stdout: out}
		text := check.Text(groupsWith(found(inspect.Unsafe, "a")), p.colourful())
		if got := strings.Contains(text, "\x1b[1;31mblocks\x1b[0m   "); got != c.coloured || got != strings.Contains(text, "\x1b") {
			t.Errorf("%v: printed %q", c.environ, text)
		}
	}
}

func TestProgressIsShownOnATerminalAlone(t *testing.T) {
	p := &process{environment: environment{environ: []string{"TERM=xterm"}}, stderr: new(fakeTerminal)}
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

// TestASIGHUPBehindTheEnd of the daemon, before its process has ended, does not kill the process.
func TestASIGHUPBehindTheEnd(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.OK(t, runDaemon(ctx, app.ProcessOptions{Config: load(t, s.env), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

// TestAReloadOfOtherVariables: those of other programs are those of the configuration in force. One
// that is refused changes none, and one that the file does not have any more is unset.
func TestAReloadOfOtherVariables(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "bridge.env")
	write := func(lines ...string) {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
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

func TestDeadLettersOfARunningServerInside(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_DEAD_LETTER"] = "eiffel.dead"
	running := must.Get(app.Open(t.Context(), app.Options{Config: load(t, s.env), Logger: slog.New(slog.DiscardHandler)}))(t)
	defer func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !running.Daemon().Status().Streams[0].Resendable {
		t.Error("the status says that nothing can be sent again")
	}
	s.call(exitFailed, "stop it, or let bridge deadletter list in with ?listen=", "deadletter list")
	s.call(exitFailed, "stop it, or let bridge deadletter resend in with ?listen=", "deadletter resend")
}
