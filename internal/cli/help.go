package cli

import (
	"fmt"
	"strings"

	"bridge/internal/terminal"
)

// Help returns the help of the commands whose names topic begins, that of the variables for the
// topic "variables", or that of all commands where topic is empty or asks for help itself. Its
// lines have at most 80 columns where those of the texts of p have. The error is a [UsageError].
func (p *Program) Help(topic []string) (string, error) {
	var some []Command
	for _, c := range p.Commands {
		if name := strings.Join(topic, " "); name == c.Name || len(topic) == 1 && strings.HasPrefix(c.Name, name+" ") {
			some = append(some, c)
		}
	}
	switch {
	case len(topic) == 0 || len(topic) == 1 && isHelp(topic[0]):
		return p.overview(), nil
	case len(topic) == 1 && topic[0] == "variables":
		return p.variables(), nil
	case len(some) == 0:
		_, _, err := p.find(topic)
		if err == nil {
			err = Errorf("bridge help takes the name of a command, or variables: see bridge help")
		}
		return "", err
	case len(some) > 1:
		return usages(some) + p.Groups[topic[0]], nil
	}
	return p.one(&some[0]), nil
}

// overview lists all commands.
func (p *Program) overview() string {
	var text strings.Builder
	text.WriteString(p.About)
	line := func(name, summary string) { fmt.Fprintf(&text, "  %-18s %s\n", name, summary) }
	for _, c := range p.Commands {
		line(c.Name, c.Summary)
	}
	line("help <command>", "tell more about a command")
	line("help variables", "list the variables, their defaults and what they mean")
	text.WriteString(p.Closing)
	return text.String()
}

// usages lists some commands with their flags.
func usages(list []Command) string {
	var text strings.Builder
	text.WriteString("Usage:\n")
	for _, c := range list {
		fmt.Fprintf(&text, "  %s\n      %s\n", terminal.WrapWords(c.Usage(), 8), c.Summary)
	}
	return text.String()
}

// one is the help of one command.
func (p *Program) one(c *Command) string {
	const usage = "Usage: "
	text := usage + terminal.WrapWords(c.Usage(), len(usage)) + "\n\n" + c.sentence() + "\n" + c.Details
	if c.Variables {
		text = strings.TrimSuffix(text, "\n") + " All variables:\n" + p.variables()
	}
	return text
}

// variables lists all variables by group, with what holds when one is not set and what it means.
func (p *Program) variables() string {
	const indent = 6
	var text strings.Builder
	group := ""
	for _, v := range p.Variables() {
		if v.Group != group {
			group = v.Group
			fmt.Fprintf(&text, "\n%s\n", group)
		}
		fmt.Fprintf(&text, "\n  %s (%s)\n%s%s\n", v.Name, terminal.OneLine(v.Fallback), strings.Repeat(" ", indent), terminal.Wrap(v.Meaning, indent))
	}
	return strings.TrimPrefix(text.String(), "\n")
}
