package main

import (
	"context"
	_ "embed" // the details of commands
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/terminal"
)

const (
	exitFine   = 0
	exitFailed = 1
	// exitUsage is for wrong usage and wrong configuration: what can be seen without a network.
	exitUsage = 2
)

const about = `bridge tails SQL tables and publishes their rows as events to Kafka or NATS
JetStream. Without a command it runs.

Exit status: 0 fine, 1 something is wrong or went wrong, 2 wrong usage or
configuration.
`

// The help lists commands as they are added.
func init() { cobra.EnableCommandSorting = false }

func (p *process) commands() *cobra.Command {
	run := runCommand(p)
	root := &cobra.Command{
		Use: "bridge", Long: about, Args: refuseUnknown, RunE: run.RunE,
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(wrongFlag)
	root.PersistentFlags().StringVar(&p.envFile, "env-file", "", "a `FILE` of variables; those of the environment win")
	// The flag is there.
	_ = root.RegisterFlagCompletionFunc("env-file", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	root.AddCommand(
		run, demoCommand(p), initCommand(p), checkCommand(p), reloadCommand(p), reconcileCommand(p), pauseCommand(p), resumeCommand(p), republishCommand(p), verifyCommand(p), schemaCommand(p),
		group("deadletter", "list the rows that the bus refused, or publish them", deadLetterList(p), deadLetterResend(p)),
		group("checkpoint", "show, set, move, reset or rebuild how far tables are published",
			checkpointShow(p), checkpointSet(p), checkpointMove(p), checkpointReset(p), checkpointRebuild(p)),
		statusCommand(p), tailCommand(p), healthCommand(p), versionCommand(p), completionCommand(p), manCommand(p), variablesTopic(),
	)
	return root
}

// newCommand returns a command without flags. Its use names the arguments: <each>, [<one more>] or
// [<any> ...].
func newCommand(use, short string) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{Use: use, Short: short, Long: strings.ToUpper(short[:1]) + short[1:] + ".\n" + detailsOf(name), Args: takes}
	c.Flags().SortFlags = false
	return c
}

// help has the details of commands by their names, each behind "==". "@name" stands for other ones.
//
//go:embed help.txt
var help string

var includes = regexp.MustCompile(`(?m)^@(\w+)$`)

func detailsOf(name string) string {
	_, text, found := strings.Cut("\n"+help, "\n== "+name+"\n")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n\n== ")
	return "\n" + includes.ReplaceAllStringFunc(strings.TrimSpace(text), func(name string) string { return strings.TrimSpace(detailsOf(name[1:])) }) + "\n"
}

func group(name, short string, all ...*cobra.Command) *cobra.Command {
	c := newCommand(name, short)
	c.AddCommand(all...)
	c.Args = refuseUnknown
	c.RunE = func(c *cobra.Command, _ []string) error {
		return usageErrorf("%s needs one of: %s", c.CommandPath(), strings.Join(names(c), ", "))
	}
	return c
}

func names(c *cobra.Command) (all []string) {
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() && one.Name() != "help" {
			all = append(all, one.Name())
		}
	}
	return all
}

type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func refuseUnknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	called := strings.TrimPrefix(c.CommandPath()+" "+args[0], "bridge ")
	if c.HasParent() {
		return usageErrorf("unknown command %q%s There are %s", called, config.Suggestion(args[0], c.CommandPath()+" ", names(c)), strings.Join(names(c), ", "))
	}
	return usageErrorf("unknown command %q%s The commands are %s; see bridge help", called, config.Suggestion(args[0], "bridge ", names(c)), strings.Join(names(c), ", "))
}

// selects adds a flag by which a command is about less than all. It has a text, once: an empty
// variable of a script does not stand for all, nor the last of several for all of them.
func selects(c *cobra.Command, to *string, name, usage string) {
	c.Flags().Func(name, usage, func(text string) error {
		if text == "" || *to != "" {
			return fmt.Errorf("--%s takes one value, once: leave it out for all, or type the command for each", name)
		}
		*to = text
		return nil
	})
}

// takes refuses another number of arguments than the use of the command has, and empty ones.
func takes(c *cobra.Command, args []string) error {
	least, most := strings.Count(c.Use, " <"), strings.Count(c.Use, "<")
	count := terminal.Count(least, "argument")
	switch {
	case strings.HasSuffix(c.Use, "...]"):
		most = math.MaxInt
	case most > least:
		count = "at most " + terminal.Count(most, "argument")
	}
	if n := len(args); n < least || n > most {
		return usageErrorf("%s takes %s, not %d: %s", c.CommandPath(), count, n, c.UseLine())
	}
	if slices.Contains(args, "") {
		return usageErrorf("an argument is empty: %s", c.UseLine())
	}
	return nil
}

func wrongFlag(c *cobra.Command, err error) error {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			known = append(known, f.Name)
		}
	})
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		name, flag := unknown.GetSpecifiedName(), "--"+unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			flag = "-" + short
		}
		if !c.HasParent() {
			return usageErrorf("unknown flag %q: flags follow a command; see bridge help", flag)
		}
		return usageErrorf("unknown flag %q of %s%s It takes --%s", flag, c.CommandPath(), config.Suggestion(name, "--", known), strings.Join(known, ", --"))
	}
	if lacking, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		flag := lacking.GetFlag()
		example, _ := pflag.UnquoteUsage(flag)
		return usageErrorf("flag --%s of %s needs a value, as in --%s %s", flag.Name, c.CommandPath(), flag.Name, example)
	}
	if wrong, is := errors.AsType[*pflag.InvalidValueError](err); is {
		switch flag := wrong.GetFlag(); flag.Value.Type() {
		case "func":
			err = wrong.Unwrap()
		case "bool":
			return usageErrorf("invalid value %q of --%s: use true or false, or leave it out", wrong.GetValue(), flag.Name)
		case "int", "uint64":
			return usageErrorf("invalid value %q of --%s: use a whole number, not below 0", wrong.GetValue(), flag.Name)
		}
	}
	return usageErrorf("%v", err)
}

func (p *process) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	if err == nil {
		return exitFine
	}
	// Where stderr fails, too, the exit status is all that is left to say it.
	_, _ = fmt.Fprintln(p.stderr, "bridge:", p.clean(config.Text(err)))
	_, configuration := errors.AsType[*config.Error](err)
	if _, usage := errors.AsType[*usageError](err); usage || configuration {
		return exitUsage
	}
	return exitFailed
}

func (p *process) dispatch(ctx context.Context, args []string) error {
	root := p.commands()
	args, help := withTwoHyphens(root, args)
	switch completing := len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd); {
	case !completing && help:
		text, err := helpOf(root, args)
		if err != nil {
			return err
		}
		return p.print(text)
	case len(args) > 0 && args[0] == "--version":
		args[0] = "version"
	case len(args) > 0 && args[0] == "--":
		return usageErrorf("unknown flag %q: flags follow a command; see bridge help", args[0])
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// withTwoHyphens returns args with --flag for -flag, as scripts may have it. help says that a word
// asks for help: values of flags are left as they are.
func withTwoHyphens(root *cobra.Command, args []string) (all []string, help bool) {
	// Whatever is wrong with args is said later.
	c, _, _ := root.Find(args)
	all = append([]string{}, args...)
	value := false
	for i, arg := range all {
		switch {
		case value:
			value = false
			continue
		case arg == "--":
			return all, help
		case len(arg) > 2 && arg[0] == '-' && 'a' <= arg[1] && arg[1] <= 'z':
			all[i] = "-" + arg
		}
		help = help || isHelp(all[i])
		if name, long := strings.CutPrefix(all[i], "--"); long {
			flag := c.Flag(name)
			value = flag != nil && flag.NoOptDefVal == ""
		}
	}
	return all, help
}

func isHelp(arg string) bool { return arg == "help" || arg == "--help" || arg == "-h" }

func helpOf(root *cobra.Command, args []string) (string, error) {
	root.InitDefaultHelpCmd()
	found, rest, err := root.Find(slices.DeleteFunc(slices.Clone(args), isHelp))
	if err != nil {
		return "", err
	}
	if err := found.ParseFlags(rest); err != nil && found == root {
		return "", wrongFlag(root, err)
	}
	switch rest := found.Flags().Args(); {
	case len(rest) > 0 && found.HasSubCommands():
		return "", refuseUnknown(found, rest)
	case len(rest) == 1 && found.Name() == variablesName:
		return variablesText(rest[0])
	case len(rest) > 0 && isHelp(args[0]):
		return "", usageErrorf("bridge help takes the name of a command, or variables: see bridge help")
	}
	var text strings.Builder
	root.SetOut(&text)
	err = found.Help()
	return text.String(), err
}

const variablesName = "variables"

func variablesTopic() *cobra.Command {
	c := &cobra.Command{Use: variablesName, Short: "list the variables, their defaults and what they mean"}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { _, _ = io.WriteString(c.OutOrStdout(), variablesOverview()) })
	return c
}

func variablesOverview() string {
	const indent = 2
	var text strings.Builder
	text.WriteString(`The variables in groups. What they mean, their values and defaults:

  bridge help variables kafka   of a group, or of names with kafka in them
  bridge help variables all     of all
`)
	ofStream := config.StreamPrefix("<NAME>")
	for _, group := range variableGroups(config.Variables()) {
		title := group[0].Group()
		if strings.HasPrefix(group[0].Name, ofStream) {
			title += ", each beginning with " + ofStream
		}
		var names []string
		for _, v := range group {
			names = append(names, strings.TrimPrefix(v.Name, ofStream))
		}
		fmt.Fprintf(&text, "\n%s\n  %s\n", title, terminal.Wrap(strings.Join(names, " "), indent))
	}
	return text.String()
}

func variableGroups(all []config.Variable) (groups [][]config.Variable) {
	for _, v := range all {
		if n := len(groups); n == 0 || groups[n-1][0].Group() != v.Group() {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], v)
	}
	return groups
}

// variablesText lists by group the variables that have a word in their name or in that of their
// group, with their default and meaning; all for the word "all".
func variablesText(word string) (string, error) {
	const indent = 6
	var found []config.Variable
	for _, v := range config.Variables() {
		has := func(name string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(word)) }
		if word == "all" || has(v.Name) || has(v.Group()) {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return "", usageErrorf("no variable and no group has %q in its name: see bridge help variables", word)
	}
	var text strings.Builder
	for _, group := range variableGroups(found) {
		fmt.Fprintf(&text, "\n%s\n", group[0].Group())
		for _, v := range group {
			fmt.Fprintf(&text, "\n  %s (%s)\n%s%s\n", v.Name, terminal.OneLine(v.Fallback()), strings.Repeat(" ", indent), terminal.Wrap(v.Meaning(), indent))
		}
	}
	return strings.TrimPrefix(text.String(), "\n"), nil
}
