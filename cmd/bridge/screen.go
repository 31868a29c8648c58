package main

import (
	"strings"

	"bridge/internal/terminal"
)

// variable returns a variable of the environment that is not of bridge.
func (p *process) variable(name string) string {
	value := ""
	for _, entry := range p.environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// colourful reports whether stdout may be coloured: on a terminal, unless NO_COLOR or a dumb
// terminal says otherwise.
func (p *process) colourful() bool {
	return terminal.Is(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"
}

// animated reports whether a line on stderr can be written over.
func (p *process) animated() bool { return terminal.Is(p.stderr) && p.variable("TERM") != "dumb" }

// newProgress returns a progress on stderr, nil where that is no terminal or a line is not wanted.
func (p *process) newProgress(wanted bool) *terminal.Progress {
	if !wanted || !p.animated() {
		return nil
	}
	return terminal.NewProgress(p.stderr)
}

// newBar returns a bar on stderr, nil where that is no terminal or a bar is not wanted.
func (p *process) newBar(wanted bool) *terminal.Line { return p.newLine(wanted && p.animated()) }

// newLine returns a line of progress on stderr, nil where it is not wanted.
func (p *process) newLine(wanted bool) *terminal.Line {
	if !wanted {
		return nil
	}
	return terminal.NewLine(p.stderr, p.animated())
}
