package main

import (
	"context"
	"io"

	"bridge/internal/cli"
)

// manCommand prints bridge.1.
func manCommand(p *process, _ context.Context, _ cli.Call) error {
	v := currentVersion()
	_, err := io.WriteString(p.stdout, program().Man(cli.Page{
		Version: v.Version, Built: v.Built, Purpose: "tail SQL tables and publish their rows as events",
		Description: "The configuration comes from the environment, see VARIABLES. Without a command, bridge runs.\n",
		Files: []cli.File{
			{Path: "/etc/bridge/bridge.env", Meaning: "Variables of the systemd unit that the packages install."},
			{Path: "/var/lib/bridge", Meaning: "The checkpoint of that unit."},
		},
	}))
	return err
}
