package main

import (
	"context"
	"io"

	"bridge/internal/cli"
)

// manCommand prints bridge.1.
func manCommand(p *process, _ context.Context, _ cli.Call) error {
	v := currentVersion()
	_, err := io.WriteString(p.stdout, program().Man(v.Version, v.Built))
	return err
}
