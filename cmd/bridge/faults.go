package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fault is one thing wrong with the configuration. It never quotes the value of a variable.
type fault struct {
	variable string
	// text says what is wrong and what would be right.
	text string
}

// configError carries everything that is wrong with the configuration.
type configError struct{ faults []fault }

// Error returns one line a fault, in the order of the variables.
func (e *configError) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is wrong:")
	for _, f := range e.faults {
		fmt.Fprintf(&b, "\n  %s: %s", printable(f.variable), oneLine(f.text))
	}
	return b.String()
}

// faults collects faults.
type faults struct{ all []fault }

func (f *faults) add(variable, format string, args ...any) {
	f.all = append(f.all, fault{variable, fmt.Sprintf(format, args...)})
}

// has reports whether something is wrong with a variable already.
func (f *faults) has(variables ...string) bool {
	return slices.ContainsFunc(f.all, func(one fault) bool { return slices.Contains(variables, one.variable) })
}

// err returns the faults, sorted and each once, or nil when there is none.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortFunc(f.all, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.variable, b.variable), cmp.Compare(a.text, b.text))
	})
	return &configError{slices.Compact(f.all)}
}

// printable returns the name of a variable fit for one line.
func printable(name string) string {
	if quoted := strconv.QuoteToASCII(name); quoted != `"`+name+`"` {
		return quoted[1 : len(quoted)-1]
	}
	return name
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
