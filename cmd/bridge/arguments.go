package main

import (
	"fmt"
	"slices"
	"strings"

	"bridge/internal/config"
	"bridge/internal/terminal"
)

// usageError says that a command line is wrong.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrongUsage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func isHelp(arg string) bool {
	return arg == "help" || arg == "--help" || arg == "-help" || arg == "-h"
}

// usage returns the parts of the command's line of the help.
func (c *command) usage() []string {
	line := []string{"bridge " + c.name}
	for _, flag := range c.values {
		line = append(line, "[--"+strings.Replace(flag, "=", " ", 1)+"]")
	}
	for _, flag := range c.flags {
		line = append(line, "[--"+flag+"]")
	}
	for _, argument := range c.arguments {
		line = append(line, "<"+argument+">")
	}
	if c.optional != "" {
		line = append(line, "[<"+c.optional+">]")
	}
	if c.rest != "" {
		line = append(line, "[<"+c.rest+"> ...]")
	}
	return line
}

// parse parses what follows the command's name. Flags may stand anywhere; after -- there are
// none.
func (c *command) parse(args []string) (call, error) {
	parsed := call{flags: map[string]bool{}, values: map[string]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			parsed.arguments = append(parsed.arguments, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			parsed.arguments = append(parsed.arguments, arg)
			continue
		}
		flag, value, inOne := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if example, takes := c.example(flag); takes {
			if !inOne {
				i++
			}
			switch {
			case inOne:
			case i == len(args):
				return call{}, wrongUsage("flag --%s of bridge %s needs a value, as in --%s %s", flag, c.name, flag, example)
			default:
				value = args[i]
			}
			parsed.values[flag] = value
			continue
		}
		if inOne {
			return call{}, c.unknownFlag(arg, flag)
		}
		if !slices.Contains(c.flags, flag) {
			return call{}, c.unknownFlag(arg, flag)
		}
		parsed.flags[flag] = true
	}
	if !c.takes(len(parsed.arguments)) {
		return call{}, wrongUsage("bridge %s takes %s, not %d: %s", c.name, c.count(), len(parsed.arguments), strings.Join(c.usage(), " "))
	}
	return parsed, nil
}

// takes reports whether the command takes n arguments.
func (c *command) takes(n int) bool {
	switch least := len(c.arguments); {
	case c.rest != "":
		return n >= least
	case c.optional != "":
		return n == least || n == least+1
	default:
		return n == least
	}
}

// count says how many arguments the command takes.
func (c *command) count() string {
	n := len(c.arguments)
	if c.optional != "" {
		return "at most " + terminal.Count(n+1, "argument")
	}
	return terminal.Count(n, "argument")
}

// example returns the example of the value that a flag takes; takes is false for flags without one.
func (c *command) example(flag string) (example string, takes bool) {
	for _, one := range c.values {
		if name, example, _ := strings.Cut(one, "="); name == flag {
			return example, true
		}
	}
	return "", false
}

func (c *command) unknownFlag(arg, flag string) error {
	known := slices.Clone(c.flags)
	for _, one := range c.values {
		name, _, _ := strings.Cut(one, "=")
		known = append(known, name)
	}
	if len(known) == 0 {
		return wrongUsage("unknown flag %q: bridge %s has no flags", arg, c.name)
	}
	return wrongUsage("unknown flag %q of bridge %s%s It takes --%s", arg, c.name, config.Suggestion(flag, "--", known), strings.Join(known, ", --"))
}
