package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
)

// tailFormat is a line of a tail.
const tailFormat = "%-12s  %-18s  %-28s  %-18s  %-9s  %8s  %s\n"

func tailCommand(p *process) *cobra.Command {
	c := newCommand("tail [<stream>]", "show the events of the running bridge as they go by", `
It shows the events of a stream, or of all, from now on, as the bus acknowledges
them: from the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080), not from
the bus. One that waits as a standby asks the one that works. It needs
BRIDGE_HTTP_TOKEN where it asks another host, because it shows rows.

Each line has the time, the table, the type, the key, the origin (tail, late,
modified, reconcile, snapshot), the delay since the row's CREATED or MODIFIED,
and the id of the event. Where events come faster than they are shown, some are
left out, and their number is shown. It holds nothing up.

Exit status: 0 when it was interrupted, 1 no answer, or the bridge has ended, 2
wrong usage or configuration.
`)
	asJSON := c.Flags().Bool("json", false, "print one JSON object a line, with the published event as\nits value")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, args []string) error {
		var failed error
		begin := func() {
			if !*asJSON {
				_, failed = fmt.Fprintf(p.stdout, tailFormat, "TIME", "TABLE", "TYPE", "KEY", "ORIGIN", "DELAY", "ID")
			}
		}
		err := bridge.Tail(ctx, strings.Join(args, ""), begin, func(one httpapi.TailItem) error {
			if failed != nil {
				return failed
			}
			text := tailLine(&one)
			if *asJSON {
				text = string(one.Text) + "\n"
			}
			_, err := io.WriteString(p.stdout, text)
			return err
		})
		if ctx.Err() != nil {
			// A person has seen enough.
			return nil
		}
		return err
	})
}

// tailLine is an event for people.
func tailLine(one *httpapi.TailItem) string {
	e := one.Event
	if e == nil {
		return fmt.Sprintf("… %s left out\n", terminal.Count(one.LeftOut, "event"))
	}
	delay := "-"
	if e.DelaySeconds != nil {
		delay = seconds(*e.DelaySeconds)
	}
	id := e.ID
	if e.DeadLetter {
		id += " refused by the bus, a dead letter"
	}
	return fmt.Sprintf(tailFormat, e.AcknowledgedAt.Local().Format("15:04:05.000"), terminal.Visible(e.Shard), e.Type, terminal.Visible(e.Key), e.Origin, delay, id)
}

// seconds is a number of seconds in a few characters.
func seconds(s float64) string {
	switch {
	case s < 100:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 100*60:
		return strconv.FormatFloat(s/60, 'f', 0, 64) + " min"
	case s < 100*3600:
		return strconv.FormatFloat(s/3600, 'f', 0, 64) + " h"
	}
	return strconv.FormatFloat(s/86400, 'f', 0, 64) + " d"
}
