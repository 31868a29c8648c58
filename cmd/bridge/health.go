package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
)

// healthTimeout is below the time limit of the image's health check.
var healthTimeout = 3 * time.Second

func healthCommand(p *process) *cobra.Command {
	c := newCommand("health", "ask the running bridge whether it is alive, or ready", `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080) and reads only
BRIDGE_HTTP_TLS_* beside it, so that it can be the health check of a container.
It asks /livez: whether the loops run, which they do while the database or the
bus is away. An address for all interfaces means this host. Where the bridge has
the certificate of BRIDGE_HTTP_TLS_CERT, no name has to be on it.

Exit status: 0 yes, 1 no, with the reasons, or no answer within 3 s, 2 when the
address is wrong.
`)
	ready := c.Flags().Bool("ready", false, "ask /readyz: whether source and bus can be reached and\nno stream is stopped")
	c.RunE = func(c *cobra.Command, _ []string) error {
		bridge, err := p.newClient()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(c.Context(), healthTimeout, fmt.Errorf("no answer within %s", healthTimeout))
		defer cancel()
		ask := bridge.Live
		if *ready {
			ask = bridge.Ready
		}
		answer, ok, err := ask(ctx)
		if err != nil {
			return err
		}
		var text strings.Builder
		fmt.Fprintln(&text, answer.Status)
		for _, r := range answer.Reasons {
			fmt.Fprintln(&text, "  "+reasonLine(r))
		}
		if err := p.print(text.String()); err != nil || ok {
			return err
		}
		return errors.New("the bridge at " + bridge.Addr + " is " + answer.Status)
	}
	return c
}

// reasonLine is a reason for people.
func reasonLine(r httpapi.Reason) string {
	switch {
	case r.Stream == "":
		return terminal.OneLine(r.Reason)
	case r.Shard == "":
		return terminal.OneLine(r.Stream + ": " + r.Reason)
	}
	return terminal.OneLine(r.Stream + " " + r.Shard + ": " + r.Reason)
}
