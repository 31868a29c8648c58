package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing wrong with the configuration. It never quotes the value of a variable.
type Fault struct {
	Variable string
	// Text says what is wrong and what would be right.
	Text string
}

// Error carries everything that is wrong with the configuration.
type Error struct{ Faults []Fault }

// Error returns one line a fault, in the order of the variables.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is wrong:")
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s: %s", printable(f.Variable), strings.Join(strings.Fields(f.Text), " "))
	}
	return b.String()
}

// faults collects faults.
type faults struct{ all []Fault }

func (f *faults) add(variable, format string, args ...any) {
	f.all = append(f.all, Fault{variable, fmt.Sprintf(format, args...)})
}

// has reports whether something is wrong with a variable already.
func (f *faults) has(variables ...string) bool {
	return slices.ContainsFunc(f.all, func(one Fault) bool { return slices.Contains(variables, one.Variable) })
}

// err returns the faults, sorted and each once, or nil when there is none.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortFunc(f.all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Text, b.Text))
	})
	return &Error{slices.Compact(f.all)}
}

// printable returns the name of a variable fit for one line.
func printable(name string) string {
	if quoted := strconv.QuoteToASCII(name); quoted != `"`+name+`"` {
		return quoted[1 : len(quoted)-1]
	}
	return name
}
