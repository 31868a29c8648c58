package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/terminal"
)

// unsafeError says that a check found something that blocks bridge, or is unsafe.
type unsafeError struct{ blocks, unsafe int }

func (e *unsafeError) Error() string {
	var parts []string
	if e.blocks > 0 {
		parts = append(parts, terminal.Count(e.blocks, "finding")+" marked blocks, which bridge cannot run with")
	}
	if e.unsafe > 0 {
		parts = append(parts, terminal.Count(e.unsafe, "finding")+" marked unsafe, with which it may lose or confuse events")
	}
	return strings.Join(parts, "; ") + ": do what is said there, then run bridge check again"
}

func checkCommand(p *process) *cobra.Command {
	c := newCommand("check", "look for what is in the way or unsafe, change nothing", `
It reads the configuration as bridge run does, connects to source, sink and
checkpoint, and prints what blocks bridge, what is unsafe and what is unwise,
what to do about it, and the statement or command to type. It writes nothing
and may run beside a running bridge. docs/findings.md explains each finding.

Exit status: 0 when there are at most warnings and notes, 1 when something
blocks bridge or is unsafe, 2 when the configuration is wrong.
`)
	asJSON := c.Flags().Bool("json", false, "print the findings as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		if found, err := app.WithTables(c.Context(), cfg); err == nil {
			// Else the check of the source says why not.
			cfg = found
		}
		line := p.newBar(!*asJSON)
		line.Show("looking at source, sink and checkpoint")
		groups := p.examine(c.Context(), cfg)
		line.Stop()
		if c.Context().Err() != nil {
			return errors.New("the check was interrupted")
		}
		err = p.show(*asJSON, check.NewReport(groups, p.secrets.Clean), check.Text(groups, p.colourful()))
		if n := check.Tally(groups); err == nil && n["blocks"]+n["unsafe"] > 0 {
			return &unsafeError{n["blocks"], n["unsafe"]}
		}
		return err
	}
	return c
}
