package main

import (
	"context"
	"errors"
	"fmt"
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
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, _ []string) error {
		ctx, cancel := context.WithTimeoutCause(ctx, healthTimeout, fmt.Errorf("no answer within %s", healthTimeout))
		defer cancel()
		ask := bridge.Live
		if *ready {
			ask = bridge.Ready
		}
		answer, ok, err := ask(ctx)
		if err != nil {
			return err
		}
		text := answer.Status + "\n"
		for _, r := range answer.Reasons {
			subject := terminal.OneLine(r.Stream + " " + r.Shard)
			if subject != "" {
				subject += ": "
			}
			text += "  " + subject + terminal.OneLine(r.Reason) + "\n"
		}
		if err := p.print(text); err != nil || ok {
			return err
		}
		return errors.New("the bridge at " + bridge.Addr + " is " + answer.Status)
	})
}
