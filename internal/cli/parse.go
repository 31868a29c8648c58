package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Line is what a command line asks for: a text of the help, or that a command runs.
type Line struct {
	// Help is the text; it is empty where a command is to run.
	Help string
	// Command is the name of that command, Call what follows it.
	Command string
	Call    Call
}

// Call is what follows the name of a command, parsed.
type Call struct {
	// Arguments are those of the command, Flags the flags that are set, Values those that take a
	// value, each by its name without hyphens.
	Arguments []string
	Flags     map[string]bool
	Values    map[string]string
}

// UsageError says that a command line is wrong, and what to write instead.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Errorf returns a [UsageError].
func Errorf(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Parse parses a command line without the name of the program; an empty one asks for help. A word
// that asks for help does so wherever it stands. The error is a [UsageError].
func (p *Program) Parse(args []string) (Line, error) {
	if len(args) == 0 || isHelp(args[0]) {
		text, err := p.Help(args[min(1, len(args)):])
		return Line{Help: text}, err
	}
	found, rest, err := p.find(args)
	if err != nil {
		return Line{}, err
	}
	if slices.ContainsFunc(rest, isHelp) {
		text, err := p.Help(strings.Fields(found.Name))
		return Line{Help: text}, err
	}
	call, err := p.call(&found, rest)
	return Line{Command: found.Name, Call: call}, err
}

func isHelp(arg string) bool {
	return arg == "help" || arg == "--help" || arg == "-help" || arg == "-h"
}

// call parses what follows the name of the command c. Flags begin with one or two hyphens and may
// stand anywhere; after -- there are none.
func (p *Program) call(c *Command, args []string) (Call, error) {
	parsed := Call{Flags: map[string]bool{}, Values: map[string]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			parsed.Arguments = append(parsed.Arguments, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			parsed.Arguments = append(parsed.Arguments, arg)
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
				return Call{}, Errorf("flag --%s of bridge %s needs a value, as in --%s %s", flag, c.Name, flag, example)
			default:
				value = args[i]
			}
			parsed.Values[flag] = value
			continue
		}
		if inOne {
			return Call{}, p.unknownFlag(c, arg, flag)
		}
		if !slices.Contains(c.Flags, flag) {
			return Call{}, p.unknownFlag(c, arg, flag)
		}
		parsed.Flags[flag] = true
	}
	if !c.takes(len(parsed.Arguments)) {
		return Call{}, Errorf("bridge %s takes %s, not %d: %s", c.Name, c.count(), len(parsed.Arguments), strings.Join(c.Usage(), " "))
	}
	return parsed, nil
}

func (p *Program) unknownFlag(c *Command, arg, flag string) error {
	known := slices.Concat(c.Flags, c.valueNames())
	if len(known) == 0 {
		return Errorf("unknown flag %q: bridge %s has no flags", arg, c.Name)
	}
	return Errorf("unknown flag %q of bridge %s%s It takes --%s", arg, c.Name, p.Suggest(flag, "--", known), strings.Join(known, ", --"))
}
