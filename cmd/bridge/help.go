package main

import (
	"fmt"
	"strings"

	"bridge/internal/config"
	"bridge/internal/terminal"
)

const about = `bridge tails SQL tables and publishes their rows as events to Kafka or NATS
JetStream.

Usage: bridge <command>

`

const closing = `
Exit status: 0 fine, 1 something is wrong or went wrong, 2 wrong usage or
configuration.
`

// groupDetails are for the help of the commands that begin with a word.
var groupDetails = map[string]string{"checkpoint": checkpointDetails, "deadletter": deadLetterDetails}

// help prints the help of the commands that topic begins the names of, or that of all.
func (p *process) help(topic []string) error {
	var some []command
	for _, c := range commands() {
		if name := strings.Join(topic, " "); name == c.name || len(topic) == 1 && strings.HasPrefix(c.name, name+" ") {
			some = append(some, c)
		}
	}
	text := ""
	switch {
	case len(topic) == 0 || len(topic) == 1 && isHelp(topic[0]):
		text = overview()
	case len(topic) == 1 && topic[0] == "variables":
		text = variables()
	case len(some) == 0:
		_, _, err := find(topic)
		if err == nil {
			err = wrongUsage("bridge help takes the name of a command, or variables: see bridge help")
		}
		return err
	case len(some) > 1:
		text = usages(some) + groupDetails[topic[0]]
	default:
		text = some[0].help()
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}

// overview lists all commands.
func overview() string {
	var text strings.Builder
	text.WriteString(about)
	line := func(name, summary string) { fmt.Fprintf(&text, "  %-18s %s\n", name, summary) }
	for _, c := range commands() {
		line(c.name, c.summary)
	}
	line("help <command>", "tell more about a command")
	line("help variables", "list the variables, their defaults and what they mean")
	text.WriteString(closing)
	return text.String()
}

// usages lists some commands with their flags.
func usages(list []command) string {
	var text strings.Builder
	text.WriteString("Usage:\n")
	for _, c := range list {
		fmt.Fprintf(&text, "  %s\n      %s\n", terminal.WrapWords(c.usage(), 8), c.summary)
	}
	return text.String()
}

// help is the help of one command.
func (c *command) help() string {
	const usage = "Usage: "
	text := usage + terminal.WrapWords(c.usage(), len(usage)) + "\n\n" + strings.ToUpper(c.summary[:1]) + c.summary[1:] + ".\n" + c.details
	if c.name == "run" {
		text += variables()
	}
	return text
}

// variables lists all variables by group, with what holds when one is not set and what it means.
func variables() string {
	const indent = 6
	var text strings.Builder
	group := ""
	for _, v := range config.Variables() {
		if v.Group() != group {
			group = v.Group()
			fmt.Fprintf(&text, "\n%s\n", group)
		}
		fmt.Fprintf(&text, "\n  %s (%s)\n%s%s\n", v.Name, terminal.OneLine(v.Fallback()), strings.Repeat(" ", indent), terminal.Wrap(v.Meaning(), indent))
	}
	return strings.TrimPrefix(text.String(), "\n")
}
