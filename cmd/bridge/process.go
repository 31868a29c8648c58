package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/logburst"
	"example.org/bridge/internal/logevent"
	"example.org/bridge/internal/terminal"
)

type environment struct {
	environ []string
	// envFile is that of --env-file, empty where it is not given.
	envFile string
	// setenv and unsetenv change a variable of the process; nil in tests.
	setenv   func(name, value string) error
	unsetenv func(name string) error
	// others has the names of the variables of other programs that were set.
	others []string
	// secrets are kept out of everything that is logged.
	secrets *config.Redactor
}

// process is what a command has of the process around it.
type process struct {
	environment
	stdout, stderr io.Writer
	// daemon is runDaemon, save in tests.
	daemon func(context.Context, app.ProcessOptions) error
	// examine is app.Examine, save in tests.
	examine func(context.Context, *config.Config) []check.Group
	// away is awayLimit; tests set another.
	away time.Duration
}

func newProcess(environ []string, stdout, stderr io.Writer) *process {
	e := environment{environ: environ, setenv: os.Setenv, unsetenv: os.Unsetenv, secrets: &config.Redactor{}}
	return &process{environment: e, stdout: stdout, stderr: stderr, daemon: runDaemon, examine: app.Examine}
}

// ofRuntime are variables that the runtime of Go has read at the start.
var ofRuntime = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// read returns the environment, and before it the variables of the file that --env-file or
// BRIDGE_ENV_FILE names, with warnings of it. others are those of the file that are of other
// programs.
func (e *environment) read() (all, others []string, warnings []config.Warning, err error) {
	if all, warnings, err = config.WithFile(e.environ, e.envFile); err != nil {
		return nil, nil, nil, err
	}
	for _, entry := range all[:len(all)-len(e.environ)] {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "BRIDGE_") && !slices.Contains(ofRuntime, name) {
			others = append(others, entry)
		}
	}
	return all, others, warnings, nil
}

// setOthers sets variables of other programs in the process, in place of those that it has set
// before, for the libraries that read them: AWS_PROFILE, say.
func (e *environment) setOthers(others []string) error {
	if e.setenv == nil {
		return nil
	}
	for _, name := range e.others {
		if err := e.unsetenv(name); err != nil {
			return err
		}
	}
	e.others = nil
	for _, entry := range others {
		name, value, _ := strings.Cut(entry, "=")
		if err := e.setenv(name, value); err != nil {
			return err
		}
		e.others = append(e.others, name)
	}
	return nil
}

// variables returns all that read does, and sets the variables of other programs.
func (e *environment) variables() ([]string, error) {
	all, others, _, err := e.read()
	if err != nil {
		return nil, err
	}
	return all, e.setOthers(others)
}

// load reads the whole configuration, and sets the variables of other programs.
func (e *environment) load() (*config.Config, error) {
	cfg, err := e.loadAgain()
	if err != nil {
		return nil, err
	}
	return cfg, e.setOthers(cfg.Others)
}

// loadAgain reads the whole configuration, and changes nothing in the process: it may be refused.
func (e *environment) loadAgain() (*config.Config, error) {
	environ, others, warnings, err := e.read()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(environ, e.secrets)
	if err != nil {
		return nil, err
	}
	cfg.Others, cfg.Warnings = others, append(warnings, cfg.Warnings...)
	return cfg, nil
}

// variable returns a variable of the environment that is not of bridge.
func (e *environment) variable(name string) string {
	for _, entry := range slices.Backward(e.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

func (e *environment) newClient() (*httpapi.Client, error) {
	environ, err := e.variables()
	if err != nil {
		return nil, err
	}
	h, err := config.LoadHTTP(environ)
	if err != nil {
		return nil, err
	}
	return &httpapi.Client{Addr: h.Addr, Setting: config.HTTPVariable, Token: h.Token, TLS: h.TLS}, nil
}

// asks has a command ask the bridge at BRIDGE_HTTP_ADDR.
func (p *process) asks(c *cobra.Command, do func(ctx context.Context, bridge *httpapi.Client, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		bridge, err := p.newClient()
		if err != nil {
			return err
		}
		return do(c.Context(), bridge, args)
	}
	return c
}

func (p *process) show(asJSON bool, answer any, text string) error {
	if asJSON {
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		return out.Encode(answer)
	}
	return p.print(text)
}

// print writes text for people to stdout, without secrets and without what a terminal obeys.
func (p *process) print(text string) error {
	_, err := io.WriteString(p.stdout, p.clean(text))
	return err
}

// clean returns text that a terminal only shows, without secrets.
func (p *process) clean(text string) string { return terminal.Lines(p.secrets.Clean(text)) }

// colourful reports whether stdout may be coloured: on a terminal, unless NO_COLOR or a dumb
// terminal says otherwise.
func (p *process) colourful() bool {
	return terminal.Is(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"
}

// animated reports whether a line on stderr can be written over.
func (p *process) animated() bool { return terminal.Is(p.stderr) && p.variable("TERM") != "dumb" }

// newLine returns a line of progress on stderr, nil where it is not wanted.
func (p *process) newLine(wanted bool) *terminal.Line {
	if !wanted {
		return nil
	}
	return terminal.NewLine(p.stderr, p.animated())
}

// newBar returns a bar on stderr, nil where that is not a terminal or a bar is not wanted.
func (p *process) newBar(wanted bool) *terminal.Line { return p.newLine(wanted && p.animated()) }

// waitLog returns a log on stderr that says what a command waits for.
func (p *process) waitLog(cfg *config.Config) *slog.Logger {
	return p.newLogger(max(cfg.LogLevel, slog.LevelWarn), cfg.LogFormat)
}

// newLogger returns a logger for stderr. Without a format it is console on a terminal that says
// what it is, as a person's does; text on one that does not, as a container's; and json otherwise.
// Each line has its event, which a person does without. Known secrets do not pass.
func (p *process) newLogger(level slog.Leveler, format string) *slog.Logger {
	if format == "" && terminal.Is(p.stderr) {
		format = "text"
		if p.variable("TERM") != "" && p.animated() {
			format = "console"
		}
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: p.secrets.Attr}
	var handler slog.Handler
	switch format {
	case "console":
		handler = terminal.NewLogHandler(p.stderr, options, logevent.Key)
	case "text":
		handler = slog.NewTextHandler(p.stderr, options)
	default:
		handler = slog.NewJSONHandler(p.stderr, options)
	}
	return slog.New(logevent.NewHandler(handler))
}

func runCommand(p *process) *cobra.Command {
	c := newCommand("run", "tail the streams and publish them (default)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		level := new(slog.LevelVar)
		level.Set(cfg.LogLevel)
		bursts := logburst.New(p.newLogger(level, cfg.LogFormat).Handler(), logburst.Options{})
		defer bursts.Flush()
		return p.daemon(c.Context(), app.ProcessOptions{Config: cfg, Logger: slog.New(bursts), Build: appBuild(), Load: p.loadAgain, Others: p.setOthers, Level: level})
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Parent().HelpFunc()(c, args)
		// There are variables.
		text, _ := variablesText("all")
		_, _ = io.WriteString(c.OutOrStdout(), "\n"+text)
	})
	return c
}

// runDaemon runs until ctx is cancelled, and reloads the configuration at each SIGHUP. An error
// means that it could not start, or could not end in good order.
func runDaemon(ctx context.Context, o app.ProcessOptions) (err error) {
	// To the end of the process, which a SIGHUP would end if nobody asked for it.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	bridge, err := app.OpenProcess(ctx, o)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		o.Logger.Info("bridge was stopped before it ran")
		return nil
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("%w: if a bridge runs on it already, end that one, or set BRIDGE_CHECKPOINT_URL to another folder", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	var reloads sync.WaitGroup
	defer reloads.Wait()
	reloading, end := context.WithCancel(ctx)
	defer end()
	reloads.Go(func() {
		for {
			select {
			case <-hangups:
				// The log has the error.
				_, _ = bridge.Reload(reloading)
			case <-reloading.Done():
				return
			}
		}
	})
	return bridge.Run(ctx)
}

func appBuild() app.Build {
	v := currentVersion()
	return app.Build{Version: v.Version, Revision: v.Commit, Go: v.Go}
}

func reloadCommand(p *process) *cobra.Command {
	c := newCommand("reload", "have the running bridge read its configuration again")
	c.Long = strings.Replace(c.Long, "NEED_RESTART", strings.Join(config.NeedRestart(), "\n  "), 1)
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, _ []string) error {
		done, err := bridge.Reload(ctx)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%w: if it was changed since bridge began, change it back, or restart bridge: it needs a restart", err)
		}
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("reloaded in %d ms: %s, %s\n", done.Milliseconds, terminal.Count(len(done.Streams), "stream"), terminal.Count(done.Shards, "table")))
	})
}
