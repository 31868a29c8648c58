package main

import (
	"fmt"
	"slices"
	"strings"
)

// usageError says that a command line is wrong.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrongUsage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func isHelp(arg string) bool {
	return arg == "help" || arg == "--help" || arg == "-help" || arg == "-h"
}

// usage returns the command's line of the help.
func (c *command) usage() string {
	line := "bridge " + c.name
	for _, flag := range c.flags {
		line += " [--" + flag + "]"
	}
	for _, argument := range c.arguments {
		line += " <" + argument + ">"
	}
	return line
}

// parse takes what stands behind the command's name. Flags may stand anywhere; behind -- there are none.
func (c *command) parse(args []string) (call, error) {
	parsed := call{flags: map[string]bool{}}
	for i, arg := range args {
		if arg == "--" {
			parsed.arguments = append(parsed.arguments, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			parsed.arguments = append(parsed.arguments, arg)
			continue
		}
		flag := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		if !slices.Contains(c.flags, flag) {
			return call{}, c.unknownFlag(arg, flag)
		}
		parsed.flags[flag] = true
	}
	if len(parsed.arguments) != len(c.arguments) {
		return call{}, wrongUsage("bridge %s takes %s, not %d: %s", c.name, count(len(c.arguments), "argument"), len(parsed.arguments), c.usage())
	}
	return parsed, nil
}

func (c *command) unknownFlag(arg, flag string) error {
	if len(c.flags) == 0 {
		return wrongUsage("unknown flag %q: bridge %s has no flags", arg, c.name)
	}
	return wrongUsage("unknown flag %q of bridge %s: did you mean --%s?", arg, c.name, nearest(flag, c.flags))
}

// count returns "no things", "1 thing" or "n things".
func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
