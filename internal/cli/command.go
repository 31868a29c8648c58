package cli

import (
	"strings"

	"bridge/internal/terminal"
)

// Command is one command; its name may have two words.
type Command struct {
	Name string
	// Arguments are the names of the arguments, Flags those of the flags.
	Arguments, Flags []string
	// Optional names one further argument, Rest any number of them, empty where there are none.
	Optional, Rest string
	// Choices are the values that the only argument may have, where they are known.
	Choices []string
	// Values are the flags that take a value, with an example of it: for=20s.
	Values []string
	// Summary is a line without a full stop, which begins with a small letter.
	Summary string
	// Details are for the command's own help.
	Details string
	// Variables says that all variables follow them there.
	Variables bool
}

// Usage returns the words of the line that shows how the command is called.
func (c *Command) Usage() []string {
	line := []string{"bridge " + c.Name}
	for _, flag := range c.Values {
		line = append(line, "[--"+strings.Replace(flag, "=", " ", 1)+"]")
	}
	for _, flag := range c.Flags {
		line = append(line, "[--"+flag+"]")
	}
	for _, argument := range c.Arguments {
		line = append(line, "<"+argument+">")
	}
	if c.Optional != "" {
		line = append(line, "[<"+c.Optional+">]")
	}
	if c.Rest != "" {
		line = append(line, "[<"+c.Rest+"> ...]")
	}
	return line
}

// sentence returns the summary as a sentence.
func (c *Command) sentence() string { return strings.ToUpper(c.Summary[:1]) + c.Summary[1:] + "." }

// takes reports whether the command takes n arguments.
func (c *Command) takes(n int) bool {
	switch least := len(c.Arguments); {
	case c.Rest != "":
		return n >= least
	case c.Optional != "":
		return n == least || n == least+1
	default:
		return n == least
	}
}

// count says how many arguments the command takes.
func (c *Command) count() string {
	n := len(c.Arguments)
	if c.Optional != "" {
		return "at most " + terminal.Count(n+1, "argument")
	}
	return terminal.Count(n, "argument")
}

// example returns the example of the value that a flag takes; takes is false for flags without one.
func (c *Command) example(flag string) (example string, takes bool) {
	for _, one := range c.Values {
		if name, example, _ := strings.Cut(one, "="); name == flag {
			return example, true
		}
	}
	return "", false
}

// valueNames returns the names of the flags that take a value.
func (c *Command) valueNames() (names []string) {
	for _, one := range c.Values {
		name, _, _ := strings.Cut(one, "=")
		names = append(names, name)
	}
	return names
}
