package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/terminal"
)

const healthDetails = `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080) and reads only
BRIDGE_HTTP_TLS_* beside it, so that it can be the health check of a container.
It asks /livez: whether the loops run, which they do while the database or the
bus is away. An address for all interfaces means this host. Where the bridge has
the certificate of BRIDGE_HTTP_TLS_CERT, no name has to be on it.

  --ready   ask /readyz: whether source and bus can be reached and no stream is
            stopped

Exit status: 0 yes, 1 no, with the reasons, or no answer within 3 s, 2 when the
address is wrong.
`

// healthTimeout is below the time limit of the image's health check.
var healthTimeout = 3 * time.Second

func healthCommand(p *process, ctx context.Context, call cli.Call) error {
	bridge, err := p.newClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, healthTimeout, fmt.Errorf("no answer within %s", healthTimeout))
	defer cancel()
	ask := bridge.Live
	if call.Flags["ready"] {
		ask = bridge.Ready
	}
	answer, ok, err := ask(ctx)
	if err != nil {
		return err
	}
	return p.printHealth(bridge.Addr, answer, ok)
}

// newClient returns a client of the bridge at BRIDGE_HTTP_ADDR.
func (p *process) newClient() (*httpapi.Client, error) {
	h, err := config.LoadHTTP(p.environ)
	if err != nil {
		return nil, err
	}
	return &httpapi.Client{Addr: h.Addr, Setting: config.HTTPVariable, Token: h.Token, TLS: httpapi.TLS(h.TLS)}, nil
}

// printHealth prints what a bridge answered; the error says that it is not well.
func (p *process) printHealth(addr string, answer httpapi.Readiness, ok bool) error {
	var text strings.Builder
	fmt.Fprintln(&text, answer.Status)
	for _, r := range answer.Reasons {
		fmt.Fprintln(&text, "  "+reasonLine(r))
	}
	if _, err := io.WriteString(p.stdout, p.secrets.Clean(text.String())); err != nil {
		return err
	}
	if !ok {
		return errors.New("the bridge at " + addr + " is " + answer.Status)
	}
	return nil
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
