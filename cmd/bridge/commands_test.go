package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/tests/must"
)

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
	p := &process{environment: environment{environ: env.Environ(), secrets: &config.Redactor{}}, stdout: &out, stderr: &errs, examine: app.Examine, away: o.away}
	p.daemon = func(_ context.Context, run app.ProcessOptions) error {
		run.Logger.Info("runs")
		o.configSeen = run.Config
		return o.daemonError
	}
	o.status = p.run(context.Background(), args)
	o.out, o.err = out.String(), errs.String()
	return o
}

// mustCall runs a command and fails the test unless it ends with the status and prints the words,
// on stdout or stderr, whatever blanks are between them.
func mustCall(t *testing.T, env settingsOf, status int, words, line string) outcome {
	t.Helper()
	got := outcome{}.call(env, strings.Fields(line)...)
	if got.status != status || !strings.Contains(strings.Join(strings.Fields(got.out+" "+got.err), " "), words) {
		t.Errorf("bridge %s: status %d, want %d with %q:\n%s\n%s", line, got.status, status, words, got.out, got.err)
	}
	return got
}

// commandNames are those of the commands that do something.
func commandNames() (all []string) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, one := range c.Commands() {
			if walk(one); !one.HasSubCommands() && one.Runnable() {
				all = append(all, strings.TrimPrefix(one.CommandPath(), "bridge "))
			}
		}
	}
	walk(new(process).commands())
	return all
}

// TestCommands has command lines, behind the variables that are set, with what they print, on
// stderr behind "!", and their exit status.
func TestCommands(t *testing.T) {
	configtest.Recorded(t, "testdata/commands.txt", *update, func(_ *testing.T, input []string) string {
		env := settingsOf{}
		for _, line := range input[:len(input)-1] {
			name, value, _ := strings.Cut(line, "=")
			env[name] = value
		}
		args := strings.Fields(strings.ReplaceAll(input[len(input)-1], "''", "\x00"))[1:]
		for i := range args {
			args[i] = strings.Trim(args[i], "\x00")
		}
		got := outcome{}.call(env, args...)
		text := got.out
		for line := range strings.Lines(got.err) {
			text += "! " + line
		}
		return fmt.Sprintf("%s= %d\n", text, got.status)
	})
	defer func(before string) { version = before }(version)
	version = "1.2.3"
	for line, words := range map[string]string{
		"version --json": `"version": "1.2.3"`, "version -json": `"version": "1.2.3"`, "--version": "bridge 1.2.3 (commit ", "help run": "BRIDGE_KAFKA_SASL_PASSWORD_FILE",
		"help variables kafka": "BRIDGE_KAFKA_SASL_PASSWORD_FILE (none) File that holds",
	} {
		mustCall(t, settingsOf{}, exitFine, words, line)
	}
}

// TestValuesOfFlagsAreLeftAsTheyAre: a key may begin with a hyphen, or be a word of ours.
func TestValuesOfFlagsAreLeftAsTheyAre(t *testing.T) {
	for given, want := range map[string]string{
		"republish stock -key -abc --key help --key=-x -json": "republish stock --key -abc --key help --key=-x --json",
		// A flag may have a value in another command alone.
		"republish stock -all -rate 5":            "republish stock --all --rate 5",
		"status -all help -stream -a":             "status --all help --stream -a",
		"checkpoint set stock -env-file -a -json": "checkpoint set stock --env-file -a --json",
	} {
		got, help := withTwoHyphens((&process{}).commands(), strings.Fields(given))
		if help || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, help %v", given, got, help)
		}
	}
}

// full is a stdout that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestHelpThatCannotBePrinted ends with a status that says so.
func TestHelpThatCannotBePrinted(t *testing.T) {
	for _, line := range []string{"help", "-h", "run --help", "help variables", "help variables kafka"} {
		var errs bytes.Buffer
		if status := newProcess(nil, full{}, &errs).run(t.Context(), strings.Fields(line)); status != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("bridge %s: status %d, %s", line, status, errs.String())
		}
	}
}

// TestHelpFitsATerminal: no line of it is wider than 80 columns.
func TestHelpFitsATerminal(t *testing.T) {
	for _, topic := range append(commandNames(), "", "variables", "variables all", "checkpoint", "deadletter") {
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
	text := strings.Join(strings.Fields(outcome{}.call(settingsOf{}, "help", "variables", "all").out), " ")
	for _, v := range config.Variables() {
		if want := terminal.OneLine(v.Name + " (" + v.Fallback() + ") " + v.Meaning()); v.Meaning() == "" || !strings.Contains(text, want) {
			t.Errorf("the help lacks %s", want)
		}
	}
}

func TestRunCommand(t *testing.T) {
	for _, line := range []string{"", "run"} {
		if got := mustCall(t, minimal(), exitFine, `"msg":"runs"`, line); got.configSeen == nil {
			t.Errorf("bridge %s: %+v", line, got)
		}
	}
	got := mustCall(t, with("BRIDGE_TYPO", "1", "BRIDGE_POLL_INTERVAL", "x"), exitUsage, "", "run")
	if got.configSeen != nil || strings.Count(got.err, "\n  BRIDGE_") != 2 {
		t.Errorf("a wrong configuration: %+v", got)
	}
	// An error of the daemon, without its secrets, and with the variable of a setting.
	failed := fmt.Errorf("login as secret-of-source: %w", option.Errorf("set %s", option.NATSStream))
	got = outcome{daemonError: failed}.call(minimal())
	if got.status != exitFailed || strings.Contains(got.err, "secret-of-source") || !strings.Contains(got.err, "login as [redacted]: set BRIDGE_NATS_STREAM\n") {
		t.Errorf("%+v", got)
	}
}

// TestAStopWhileItBegins: who stops the program at once gets what a stop in good order gives.
func TestAStopWhileItBegins(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs bytes.Buffer
	if status := newProcess(newShop(t).env.Environ(), &out, &errs).run(ctx, []string{"run"}); status != 0 || !strings.Contains(errs.String()+out.String(), "stopped before it ran") {
		t.Errorf("exit status %d, %s%s", status, out.String(), errs.String())
	}
}

func TestCompletion(t *testing.T) {
	t.Run("proposes commands, arguments and flags", func(t *testing.T) {
		for line, want := range map[string]string{
			"":                  "run demo init check reload reconcile pause resume republish verify schema deadletter checkpoint status tail health version completion man help",
			"checkpoint ":       "show set move reset rebuild",
			"help checkpoint s": "show set",
			"completion ":       "bash zsh fish",
			"demo --":           "--for --keep --env-file --help",
			"demo --for ":       "",
			"reconcile ":        "",
		} {
			words := strings.Split(line, " ")
			got := outcome{}.call(settingsOf{}, append([]string{"__completeNoDesc"}, words...)...)
			names := strings.Fields(strings.TrimSuffix(got.out, ":4\n"))
			sorted := strings.Fields(want)
			slices.Sort(names)
			slices.Sort(sorted)
			if !strings.HasSuffix(got.out, ":4\n") || !slices.Equal(names, sorted) {
				t.Errorf("%q: proposes %q, want %q", line, got.out, want)
			}
		}
	})
	t.Run("has scripts that the shells take", func(t *testing.T) {
		for _, shell := range shells {
			got := outcome{}.call(settingsOf{}, "completion", shell)
			if got.status != exitFine || !strings.Contains(got.out, "__complete") {
				t.Errorf("%s: %+v", shell, got)
			}
			if _, err := exec.LookPath(shell); err != nil {
				t.Logf("no %s here: its script is not parsed", shell)
				continue
			}
			parse := exec.Command(shell, "-n")
			parse.Stdin = strings.NewReader(got.out)
			if out, err := parse.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	})
}

func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	path := write("bridge.env", "# a copy\n"+strings.Join(with("BRIDGE_DOMAIN_ID", "of the file").Environ(), "\n")+"\nAWS_PROFILE=p\nGOGC=7\n")
	t.Run("has the variables that the environment lacks, for every command", func(t *testing.T) {
		for _, args := range [][]string{{"--env-file", path}, {"run", "--env-file=" + path}, {"--env-file", path, "run"}} {
			if got := (outcome{}).call(nil, args...); got.status != exitFine || got.configSeen.DomainID != "of the file" {
				t.Errorf("%q: %+v", args, got)
			}
		}
		got := outcome{}.call(settingsOf{"BRIDGE_ENV_FILE": path, "BRIDGE_DOMAIN_ID": "of the environment"}, "run")
		if got.status != exitFine || got.configSeen.DomainID != "of the environment" {
			t.Errorf("%+v", got)
		}
		of := write("others.env", "BRIDGE_CHECKPOINT_URL=file:"+dir+"/none\nBRIDGE_HTTP_ADDR=127.0.0.1:1\n")
		for line, want := range map[string]string{"checkpoint show": "there is no checkpoint at " + dir + "/none", "health": "127.0.0.1:1", "status": "127.0.0.1:1"} {
			mustCall(t, nil, exitFailed, want, line+" --env-file "+of)
		}
	})
	t.Run("sets those of other programs in the process", func(t *testing.T) {
		set := map[string]string{}
		p := &environment{envFile: path, setenv: func(name, value string) error { set[name] = value; return nil }}
		if _, err := p.variables(); err != nil || !maps.Equal(set, map[string]string{"AWS_PROFILE": "p"}) {
			t.Errorf("%v, %v", set, err)
		}
	})
	t.Run("ends with status 2 where it is wrong, and hides nothing of what is unknown", func(t *testing.T) {
		for text, want := range map[string]string{"BRIDGE_DOMAIN_ID=a\nhidden\n": "wrong.env:2: ", "BRIDGE_TYPO=1\n": "BRIDGE_TYPO: is unknown"} {
			mustCall(t, minimal(), exitUsage, want, "check --env-file "+write("wrong.env", text))
		}
		mustCall(t, minimal(), exitUsage, "--env-file: names the file "+dir, "run --env-file "+filepath.Join(dir, "missing"))
		mustCall(t, nil, exitUsage, "needs a value, as in --env-file FILE", "run --env-file")
	})
}

type settingsOf = configtest.Env

var minimal, with = configtest.Minimal, configtest.With

func load(t *testing.T, env settingsOf) *config.Config {
	t.Helper()
	cfg := must.Get(config.Load(env.Environ(), &config.Redactor{}))(t)
	return cfg
}

func TestLogger(t *testing.T) {
	const hidden = "Zq7hidden"
	secrets := &config.Redactor{}
	must.Get(config.Load(with("BRIDGE_SINK_URL", "nats://u:"+hidden+"@n").Environ(), secrets))(t)
	for _, format := range []string{"console", "text", "json"} {
		t.Run("keeps secrets out of a log in "+format, func(t *testing.T) {
			var out bytes.Buffer
			logger := (&process{environment: environment{secrets: secrets}, stderr: &out}).newLogger(slog.LevelInfo, format).With("dsn", "u:"+hidden)
			logger.Error("login "+hidden, "error", errors.New(hidden+" refused"), slog.Group("g", "bytes", []byte(hidden)), "source", "secret-of-source")
			if text := out.String(); strings.Contains(text, hidden) || strings.Contains(text, "secret-of-source") || !strings.Contains(text, "[redacted]") {
				t.Errorf("logged %s", text)
			}
		})
	}
	t.Run("debug lines are left out by default and json is chosen off a terminal", func(t *testing.T) {
		var out bytes.Buffer
		logger := (&process{environment: environment{secrets: &config.Redactor{}}, stderr: &out}).newLogger(slog.LevelInfo, "")
		logger.Debug("no")
		logger.Info("yes")
		if text := out.String(); !strings.HasPrefix(text, `{"time":`) || strings.Contains(text, `"no"`) || !strings.Contains(text, `"msg":"yes","event":"yes"`) {
			t.Errorf("logged %s", text)
		}
	})
}

type fakeTerminal struct{ bytes.Buffer }

func (*fakeTerminal) Stat() (fs.FileInfo, error) { return terminalInfo{}, nil }

type terminalInfo struct{ fs.FileInfo }

func (terminalInfo) Mode() fs.FileMode { return fs.ModeDevice | fs.ModeCharDevice }

func TestLogOnATerminal(t *testing.T) {
	for term, begins := range map[string]string{"": "time=", "dumb": "time=", "xterm": "20"} {
		var out fakeTerminal
		p := &process{environment: environment{environ: []string{"TERM=" + term}, secrets: &config.Redactor{}}, stderr: &out}
		p.newLogger(slog.LevelInfo, "").Info("yes")
		if text := out.String(); !strings.HasPrefix(text, begins) {
			t.Errorf("with TERM=%s it logs %s", term, text)
		}
	}
}

func TestManPage(t *testing.T) {
	text := outcome{}.call(settingsOf{}, "man").out
	t.Run("has every command and variable", func(t *testing.T) {
		for _, name := range commandNames() {
			if !strings.Contains(text, ".SS bridge "+strings.ReplaceAll(name, "-", `\-`)) {
				t.Errorf("lacks %s", name)
			}
		}
		for _, v := range config.Variables() {
			if !strings.Contains(text, ".BR "+v.Name+" ") {
				t.Errorf("lacks %s", v.Name)
			}
		}
	})
	t.Run("is ASCII", func(t *testing.T) {
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
				t.Errorf("not ASCII: %s", line)
			}
		}
	})
	t.Run("is formatted without a warning", func(t *testing.T) {
		if _, err := exec.LookPath("groff"); err != nil {
			t.Skip("no groff here: the page is not formatted")
		}
		format := exec.Command("groff", "-man", "-ww", "-Tutf8")
		format.Stdin = strings.NewReader(text)
		var warnings strings.Builder
		format.Stderr = &warnings
		out, err := format.Output()
		if err != nil || warnings.Len() > 0 || !strings.Contains(string(out), "BRIDGE_SOURCE_URL") {
			t.Errorf("%v: %s", err, warnings.String())
		}
	})
}
