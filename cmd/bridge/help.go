package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

const about = `bridge tails SQL tables and publishes their rows as events to Kafka or NATS JetStream.

Usage:
`

const closing = `
Exit status: 0 fine, 1 something is wrong or went wrong, 2 wrong usage or configuration.
bridge help <command> tells more about one of them.
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
	switch {
	case len(topic) == 0 || len(topic) == 1 && isHelp(topic[0]):
		return p.overview(commands(), about, closing)
	case len(some) == 0:
		_, _, err := find(topic)
		if err == nil {
			err = wrongUsage("bridge help takes the name of a command: see bridge help")
		}
		return err
	case len(some) > 1:
		return p.overview(some, "Usage:\n", groupDetails[topic[0]])
	}
	return p.details(some[0])
}

func (p *process) overview(list []command, head, foot string) error {
	var text strings.Builder
	text.WriteString(head)
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, c := range list {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", c.usage(), c.summary)
	}
	_ = table.Flush()
	_, err := fmt.Fprint(p.stdout, text.String(), foot)
	return err
}

func (p *process) details(c command) error {
	text := fmt.Sprintf("Usage: %s\n\n%s\n%s", c.usage(), strings.ToUpper(c.summary[:1])+c.summary[1:]+".", c.details)
	if c.name == "run" {
		text += variableTable()
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}

// variableTable lists all variables with their defaults.
func variableTable() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, v := range referenceVariables() {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t\n", v.name, v.fallback())
	}
	_ = table.Flush()
	return text.String()
}
