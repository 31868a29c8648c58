package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"bridge/checkpoint/store"
	"bridge/internal/app"
	"bridge/internal/check"
	"bridge/internal/config"
	"bridge/internal/logburst"
	"bridge/internal/terminal"
)

// Exit status.
const (
	exitFine   = 0
	exitFailed = 1
	// exitUsage is for wrong usage and wrong configuration: what can be seen without a network.
	exitUsage = 2
)

// process is what a command has of the process around it.
type process struct {
	environ        []string
	stdout, stderr io.Writer
	// daemon is runDaemon, save in tests.
	daemon func(context.Context, *config.Config, *slog.Logger) error
	// examine is app.Examine, save in tests.
	examine func(context.Context, *config.Config, *terminal.Progress) []check.Group
	// secrets are kept out of everything that is logged.
	secrets *config.Redactor
}

// command is one command; its name may have two words.
type command struct {
	name string
	// arguments are the names of the arguments, flags those of the flags.
	arguments, flags []string
	// optional names one further argument, rest any number of them, empty where there are none.
	optional, rest string
	// choices are the values that the only argument may have, where they are known.
	choices []string
	// values are the flags that take a value, with an example of it: for=20s.
	values  []string
	summary string
	// details are for the command's own help.
	details string
	run     func(p *process, ctx context.Context, call call) error
}

// call is a command line, parsed.
type call struct {
	arguments []string
	flags     map[string]bool
	values    map[string]string
}

// commands returns all commands in the order of the help.
func commands() []command {
	return []command{
		{name: "run", summary: "tail the streams and publish them (default)", details: runDetails, run: runCommand},
		{name: "demo", values: []string{"for=20s"}, flags: []string{"keep"}, summary: "see events within seconds; needs no service and no settings", details: demoDetails, run: demoCommand},
		{name: "check", flags: []string{"json"}, summary: "look for what is in the way or unsafe, change nothing", details: checkDetails, run: checkCommand},
		{name: "reconcile", rest: "stream", flags: []string{"dry-run", "allow-deletes", "json"}, summary: "compare tables with what was published, publish the rest", details: reconcileDetails, run: reconcileCommand},
		{name: "verify", values: []string{"examples=10"}, flags: []string{"json"}, summary: "compare the whole bus with the tables, change nothing", details: verifyDetails, run: verifyCommand},
		{name: "schema", rest: "stream", flags: []string{"asyncapi"}, summary: "print what the events look like, for those who consume them", details: schemaDetails, run: schemaCommand},
		{name: "deadletter list", values: []string{"stream=orders"}, flags: []string{"json"}, summary: "list the dead letters: rows that the bus refused", details: deadLetterDetails + deadLetterListDetails, run: deadLetterList},
		{name: "deadletter resend", values: []string{"stream=orders", "shard=orders_07", "row=17"}, flags: []string{"dry-run", "json"}, summary: "publish what is true of those rows now",
			details: deadLetterDetails + deadLetterResendDetails, run: deadLetterResend},
		{name: "checkpoint show", flags: []string{"json"}, summary: "show how far each shard has been published", details: checkpointDetails, run: checkpointShow},
		{name: "checkpoint set", arguments: []string{"stream", "shard", "id"}, summary: "make a shard go on after an id", details: checkpointDetails + checkpointSetDetails, run: checkpointSet},
		{name: "checkpoint reset", arguments: []string{"stream"}, summary: "forget a stream: it begins again where START says", details: checkpointDetails + checkpointResetDetails, run: checkpointReset},
		{name: "checkpoint rebuild", arguments: []string{"stream"}, summary: "have the next start read a stream from the bus again", details: checkpointDetails + checkpointRebuildDetails, run: checkpointRebuild},
		{name: "status", flags: []string{"watch", "json"}, summary: "show the running bridge: its shards, its standby group", details: statusDetails, run: statusCommand},
		{name: "tail", optional: "stream", flags: []string{"json"}, summary: "show the events of the running bridge as they go by", details: tailDetails, run: tailCommand},
		{name: "health", flags: []string{"ready"}, summary: "ask the running bridge whether it is alive, or ready", details: healthDetails, run: healthCommand},
		{name: "version", flags: []string{"json"}, summary: "print the version", run: versionCommand},
		{name: "completion", arguments: []string{"shell"}, choices: shells, summary: "print the completion script for bash, zsh or fish", details: completionDetails, run: completionCommand},
		{name: "man", summary: "print the manual page bridge(1)", run: manCommand},
	}
}

const runDetails = `
SIGTERM or SIGINT stops it within BRIDGE_SHUTDOWN_TIMEOUT, with status 0. A
second signal stops it at once, with status 1; nothing is lost.

The configuration comes from the environment; docs/configuration.md describes
it. All variables:
`

// run is the program: it returns the exit status.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p := &process{environ: environ, stdout: stdout, stderr: stderr, daemon: runDaemon, examine: app.Examine, secrets: &config.Redactor{}}
	return p.run(ctx, args)
}

func (p *process) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	if err == nil {
		return exitFine
	}
	// Where stderr fails, too, the exit status is all that is left to say it.
	_, _ = fmt.Fprintln(p.stderr, "bridge:", p.secrets.Clean(config.Text(err)))
	if _, wrong := errors.AsType[*config.Error](err); wrong {
		return exitUsage
	}
	if _, wrong := errors.AsType[*usageError](err); wrong {
		return exitUsage
	}
	return exitFailed
}

// dispatch finds the command that args begin with and runs it.
func (p *process) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"run"}
	}
	switch {
	case isHelp(args[0]):
		return p.help(args[1:])
	case args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	found, rest, err := find(args)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(rest, isHelp) {
		return p.help(strings.Fields(found.name))
	}
	parsed, err := found.parse(rest)
	if err != nil {
		return err
	}
	return found.run(p, ctx, parsed)
}

// find returns the command that args begin with and the arguments after its name.
func find(args []string) (command, []string, error) {
	var first, second []string
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return c, args[len(words):], nil
		}
		first = append(first, words[0])
		if len(words) > 1 && args[0] == words[0] {
			second = append(second, words[1])
		}
	}
	switch {
	case len(second) > 0 && len(args) > 1 && isHelp(args[1]):
		return command{name: args[0]}, args[1:], nil
	case len(second) > 0 && len(args) > 1:
		return command{}, nil, wrongUsage("unknown command %q%s There are %s",
			args[0]+" "+args[1], config.Suggestion(args[1], "bridge "+args[0]+" ", second), strings.Join(second, ", "))
	case len(second) > 0:
		return command{}, nil, wrongUsage("bridge %s needs one of: %s", args[0], strings.Join(second, ", "))
	case strings.HasPrefix(args[0], "-"):
		return command{}, nil, wrongUsage("unknown flag %q: flags follow a command; see bridge help", args[0])
	}
	first = slices.Compact(first)
	return command{}, nil, wrongUsage("unknown command %q%s The commands are %s; see bridge help",
		args[0], config.Suggestion(args[0], "bridge ", first), strings.Join(first, ", "))
}

// runCommand reads the whole configuration and runs the daemon until a signal.
func runCommand(p *process, ctx context.Context, _ call) error {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return err
	}
	logger := newLogger(p.stderr, cfg.LogLevel, cfg.LogFormat, p.secrets)
	bursts := logburst.New(logger.Handler(), logburst.Options{})
	defer bursts.Flush()
	return p.daemon(ctx, cfg, slog.New(bursts))
}

// runDaemon runs until ctx is cancelled. An error means that it could not start, or could not end
// in good order.
func runDaemon(ctx context.Context, cfg *config.Config, logger *slog.Logger) (err error) {
	a, err := app.Open(ctx, app.Options{Config: cfg, Logger: logger, Build: appBuild(), Serve: true})
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		logger.Info("bridge was stopped before it ran")
		return nil
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("%w: if a bridge runs on it already, end that one, or set BRIDGE_CHECKPOINT_URL to another folder", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.Run(ctx)
}

// appBuild is the version for the log and the metrics.
func appBuild() app.Build {
	v := currentVersion()
	return app.Build{Version: v.Version, Revision: v.Commit, Go: v.Go}
}
