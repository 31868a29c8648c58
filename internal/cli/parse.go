package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Call is a command line, parsed.
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

// IsHelp reports whether a word asks for help.
func IsHelp(arg string) bool {
	return arg == "help" || arg == "--help" || arg == "-help" || arg == "-h"
}

// Parse parses what follows the name of the command c. Flags begin with one or two hyphens and may
// stand anywhere; after -- there are none. The error is a [UsageError].
func (p *Program) Parse(c *Command, args []string) (Call, error) {
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
	known := slices.Clone(c.Flags)
	for _, one := range c.Values {
		name, _, _ := strings.Cut(one, "=")
		known = append(known, name)
	}
	if len(known) == 0 {
		return Errorf("unknown flag %q: bridge %s has no flags", arg, c.Name)
	}
	return Errorf("unknown flag %q of bridge %s%s It takes --%s", arg, c.Name, p.Suggest(flag, "--", known), strings.Join(known, ", --"))
}
