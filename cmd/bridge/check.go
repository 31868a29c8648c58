package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"bridge/internal/check"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/terminal"
)

const checkDetails = `
It reads the configuration as bridge run does, connects to source, sink and
checkpoint, and prints what blocks bridge, what is unsafe and what is unwise,
what to do about it, and the statement or command to type. It writes nothing
and may run beside a running bridge. docs/findings.md explains each finding.

  --json   print the findings as JSON

Exit status: 0 when there are at most warnings and notes, 1 when something
blocks bridge or is unsafe, 2 when the configuration is wrong.
`

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

func checkCommand(p *process, ctx context.Context, call cli.Call) error {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return err
	}
	progress := p.newProgress(!call.Flags["json"])
	groups := p.examine(ctx, cfg, progress)
	progress.Stop()
	if ctx.Err() != nil {
		return errors.New("the check was interrupted")
	}
	if call.Flags["json"] {
		err = p.printJSON(check.NewReport(groups, p.secrets.Clean))
	} else {
		_, err = io.WriteString(p.stdout, p.secrets.Clean(check.Text(groups, p.colourful())))
	}
	if n := check.Tally(groups); err == nil && n["blocks"]+n["unsafe"] > 0 {
		return &unsafeError{n["blocks"], n["unsafe"]}
	}
	return err
}
