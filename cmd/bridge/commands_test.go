package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bridge/internal/app"
	"bridge/internal/config"
	"bridge/internal/option"
	"bridge/internal/terminal"
)

// outcome is what a command line leads to.
type outcome struct {
	status      int
	out, err    string
	configSeen  *config.Config
	daemonError error
	away        time.Duration
}

// call runs a command line in this process, with a daemon that returns at once.
func (o outcome) call(env settingsOf, args ...string) outcome {
	var out, errs bytes.Buffer
	p := &process{environ: env.Environ(), stdout: &out, stderr: &errs, examine: app.Examine, secrets: &config.Redactor{}, away: o.away}
	p.daemon = func(_ context.Context, cfg *config.Config, logger *slog.Logger) error {
		logger.Info("runs")
		o.configSeen = cfg
		return o.daemonError
	}
	o.status = p.run(context.Background(), args)
	o.out, o.err = out.String(), errs.String()
	return o
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
		// out and err are parts of what is printed; nothing else may be where one is empty.
		out, err string
	}{
		{"help", 0, "checkpoint set     make a shard go on after an id", ""},
		{"-h", 0, "Exit status", ""},
		{"help variables", 0, "  BRIDGE_POLL_INTERVAL (200ms)\n      Pause ", ""},
		{"run --help", 0, "BRIDGE_STREAM_<NAME>_TABLE", ""},
		{"help run", 0, "BRIDGE_KAFKA_SASL_PASSWORD_FILE", ""},
		{"checkpoint --help", 0, "bridge checkpoint reset <stream>", ""},
		{"help checkpoint", 0, "bridge checkpoint show [--json]", ""},
		{"version", 0, "bridge ", ""},
		{"--version", 0, "bridge ", ""},
		{"help checkpoint set", 0, "<stream> <shard> <id>", ""},
		{"run extra", 2, "", "takes no arguments, not 1"},
		{"runn", 2, "", "did you mean bridge run? The commands are run, demo, check, reconcile, verify, schema, deadletter, checkpoint, status, tail, health, version"},
		{"nonsense", 2, "", `unknown command "nonsense". The commands are run, demo`},
		{"demo --help", 0, "Usage: bridge demo [--for 20s] [--keep]", ""},
		{"demo --for", 2, "", "needs a value, as in --for 20s"},
		{"demo --for 20", 2, "", "a duration above 0 with its unit"},
		{"demo --for=-1s", 2, "", "a duration above 0 with its unit"},
		{"check", 2, "", "the configuration is wrong"},
		{"verify --examples", 2, "", "needs a value, as in --examples 10"},
		{"verify --examples few", 2, "", "invalid number of examples"},
		{"verify --examples=-1", 2, "", "invalid number of examples"},
		{"check --help", 0, "Usage: bridge check [--json]", ""},
		{"reconcile --help", 0, "Usage: bridge reconcile [--dry-run] [--allow-deletes] [--json] [<stream> ...]", ""},
		{"reconcile --dryrun", 2, "", "did you mean --dry-run? It takes --dry-run, --allow-deletes, --json"},
		{"tail --help", 0, "Usage: bridge tail [--json] [<stream>]", ""},
		{"checkpoint", 2, "", "needs one of: show, set, reset"},
		{"checkpoint set a b", 2, "", "takes 3 arguments, not 2"},
		{"checkpoint set a b x", 2, "", "invalid ID"},
		{"checkpoint reset", 2, "", "takes 1 argument, not 0"},
	} {
		t.Run("bridge "+c.line, func(t *testing.T) {
			got := outcome{}.call(settingsOf{}, strings.Fields(c.line)...)
			if got.status != c.status {
				t.Errorf("status %d, want %d: %s", got.status, c.status, got.err)
			}
			for _, one := range []struct{ got, want string }{{got.out, c.out}, {got.err, c.err}} {
				if !strings.Contains(one.got, one.want) || one.want == "" && one.got != "" {
					t.Errorf("printed %q, want %q", one.got, one.want)
				}
			}
		})
	}
}

// TestHelpFitsATerminal: no line of it is wider than 80 columns.
func TestHelpFitsATerminal(t *testing.T) {
	topics := []string{"", "variables", "checkpoint", "deadletter"}
	for _, c := range commands() {
		topics = append(topics, c.Name)
	}
	for _, topic := range topics {
		got := outcome{}.call(settingsOf{}, append([]string{"help"}, strings.Fields(topic)...)...)
		for line := range strings.Lines(got.out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("bridge help %s: %d columns: %s", topic, n, line)
			}
		}
		if got.status != exitFine {
			t.Errorf("bridge help %s: %+v", topic, got)
		}
	}
}

// TestHelpTellsOfEveryVariable: its default and its meaning.
func TestHelpTellsOfEveryVariable(t *testing.T) {
	text := strings.Join(strings.Fields(outcome{}.call(settingsOf{}, "help", "variables").out), " ")
	for _, v := range config.Variables() {
		if want := terminal.OneLine(v.Name + " (" + v.Fallback() + ") " + v.Meaning()); v.Meaning() == "" || !strings.Contains(text, want) {
			t.Errorf("the help lacks %s", want)
		}
	}
}

func TestVersion(t *testing.T) {
	defer func(before string) { version = before }(version)
	version = "1.2.3"
	got := outcome{}.call(settingsOf{}, "version", "--json")
	var v buildVersion
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Version != "1.2.3" || v.Commit == "" || !strings.HasPrefix(v.Go, "go") {
		t.Errorf("%+v, %v from %s", v, err, got.out)
	}
}

func TestRunCommand(t *testing.T) {
	t.Run("is the default and ends with status 0 when the daemon does", func(t *testing.T) {
		for _, args := range [][]string{nil, {"run"}} {
			got := outcome{}.call(minimal(), args...)
			if got.status != 0 || got.configSeen == nil || !strings.Contains(got.err, `"msg":"runs"`) {
				t.Errorf("bridge %v: %+v", args, got)
			}
		}
	})
	t.Run("ends with status 2 on a wrong configuration and lists the faults", func(t *testing.T) {
		got := outcome{}.call(with("BRIDGE_TYPO", "1", "BRIDGE_POLL_INTERVAL", "x"), "run")
		if got.status != 2 || got.configSeen != nil || strings.Count(got.err, "\n  BRIDGE_") != 2 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("ends with status 1 when the daemon fails, without its secrets", func(t *testing.T) {
		got := outcome{daemonError: errors.New("login as secret-of-source failed")}.call(minimal())
		if got.status != 1 || strings.Contains(got.err, "secret-of-source") || !strings.Contains(got.err, "login as") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("names the variable of a setting that an error names", func(t *testing.T) {
		got := outcome{daemonError: fmt.Errorf("open: %w", option.Errorf("set %s", option.NATSStream))}.call(minimal())
		if got.status != 1 || !strings.Contains(got.err, "open: set BRIDGE_NATS_STREAM\n") {
			t.Errorf("%+v", got)
		}
	})
}

// TestAStopWhileItBegins: who stops the program at once gets what a stop in good order gives.
func TestAStopWhileItBegins(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	env := settingsOf{
		"BRIDGE_SOURCE_URL": "sqlite:" + file, "BRIDGE_SINK_URL": "embedded:" + filepath.Join(dir, "bus"), "BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(dir, "checkpoint"),
		"BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_HTTP_ADDR": "127.0.0.1:0",
	}
	var out, errs bytes.Buffer
	if status := run(ctx, []string{"run"}, env.Environ(), &out, &errs); status != 0 || !strings.Contains(errs.String()+out.String(), "stopped before it ran") {
		t.Errorf("exit status %d, %s%s", status, out.String(), errs.String())
	}
}
