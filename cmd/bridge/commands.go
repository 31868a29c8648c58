package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"bridge/internal/app"
	"bridge/internal/check"
	"bridge/internal/cli"
	"bridge/internal/config"
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
	// away is that of awayLimit, save in tests.
	away time.Duration
	// secrets are kept out of everything that is logged.
	secrets *config.Redactor
}

// command is a command and what runs it.
type command struct {
	cli.Command
	run func(p *process, ctx context.Context, call cli.Call) error
}

// commands returns all commands in the order of the help.
func commands() []command {
	return []command{
		{cli.Command{Name: "run", Summary: "tail the streams and publish them (default)", Details: runDetails, Variables: true}, runCommand},
		{cli.Command{Name: "demo", Values: []string{"for=20s"}, Flags: []string{"keep"}, Summary: "see events within seconds; needs no service and no settings", Details: demoDetails}, demoCommand},
		{cli.Command{Name: "check", Flags: []string{"json"}, Summary: "look for what is in the way or unsafe, change nothing", Details: checkDetails}, checkCommand},
		{cli.Command{Name: "reconcile", Rest: "stream", Flags: []string{"dry-run", "allow-deletes", "json"}, Summary: "compare tables with what was published, publish the rest", Details: reconcileDetails}, reconcileCommand},
		{cli.Command{Name: "verify", Values: []string{"examples=10"}, Flags: []string{"json"}, Summary: "compare the whole bus with the tables, change nothing", Details: verifyDetails}, verifyCommand},
		{cli.Command{Name: "schema", Rest: "stream", Flags: []string{"asyncapi"}, Summary: "print what the events look like, for those who consume them", Details: schemaDetails}, schemaCommand},
		{cli.Command{Name: "deadletter list", Values: []string{"stream=orders"}, Flags: []string{"json"}, Summary: "list the dead letters: rows that the bus refused", Details: deadLetterDetails + deadLetterListDetails}, deadLetterList},
		{cli.Command{Name: "deadletter resend", Values: []string{"stream=orders", "shard=orders_07", "row=17"}, Flags: []string{"dry-run", "json"}, Summary: "publish what is true of those rows now",
			Details: deadLetterDetails + deadLetterResendDetails}, deadLetterResend},
		{cli.Command{Name: "checkpoint show", Flags: []string{"json"}, Summary: "show how far each shard has been published", Details: checkpointDetails}, checkpointShow},
		{cli.Command{Name: "checkpoint set", Arguments: []string{"stream", "shard", "id"}, Summary: "make a shard go on after an id", Details: checkpointDetails + checkpointSetDetails}, checkpointSet},
		{cli.Command{Name: "checkpoint reset", Arguments: []string{"stream"}, Summary: "forget a stream: it begins again where START says", Details: checkpointDetails + checkpointResetDetails}, checkpointReset},
		{cli.Command{Name: "checkpoint rebuild", Arguments: []string{"stream"}, Summary: "have the next start read a stream from the bus again", Details: checkpointDetails + checkpointRebuildDetails}, checkpointRebuild},
		{cli.Command{Name: "status", Flags: []string{"watch", "json"}, Summary: "show the running bridge: its shards, its standby group", Details: statusDetails}, statusCommand},
		{cli.Command{Name: "tail", Optional: "stream", Flags: []string{"json"}, Summary: "show the events of the running bridge as they go by", Details: tailDetails}, tailCommand},
		{cli.Command{Name: "health", Flags: []string{"ready"}, Summary: "ask the running bridge whether it is alive, or ready", Details: healthDetails}, healthCommand},
		{cli.Command{Name: "version", Flags: []string{"json"}, Summary: "print the version"}, versionCommand},
		{cli.Command{Name: "completion", Arguments: []string{"shell"}, Choices: cli.Shells, Summary: "print the completion script for bash, zsh or fish", Details: completionDetails}, completionCommand},
		{cli.Command{Name: "man", Summary: "print the manual page bridge(1)"}, manCommand},
	}
}

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
	if _, wrong := errors.AsType[*cli.UsageError](err); wrong {
		return exitUsage
	}
	return exitFailed
}

// dispatch runs the command that args name, or prints the help that they ask for.
func (p *process) dispatch(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		args = []string{"run"}
	case args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	line, err := program().Parse(args)
	switch {
	case err != nil:
		return err
	case line.Help != "":
		_, err := io.WriteString(p.stdout, line.Help)
		return err
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.Name == line.Command })
	return all[i].run(p, ctx, line.Call)
}
