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

// tailFormat is a line of a tail, of tailColumns with an id. narrowTail is one of 79 columns, for a
// terminal that has fewer.
const (
	tailFormat  = "%-12s  %-18s  %-28s  %-18s  %-9s  %8s  %s\n"
	narrowTail  = "%-8s  %-14s  %-22s  %-10s  %-9s  %6s\n"
	tailColumns = 141
)

func tailCommand(p *process) *cobra.Command {
	c := newCommand("tail [<stream>]", "show the events of the running bridge as they go by", `
It shows the events of a stream, or of all, from now on, as the bus acknowledges
them: from the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080), not from
the bus. One that waits as a standby asks the one that works. It needs
BRIDGE_HTTP_TOKEN where it asks another host, because it shows rows.

Each line has the time, the table, the type, the key, the origin (tail, late,
modified, reconcile, snapshot), the delay since the row's CREATED or MODIFIED,
and the id of the event, but on a terminal of less than 141 columns. Where
events come faster than they are shown, some are left out, and their number is
shown. It holds nothing up.

Exit status: 0 when it was interrupted, 1 no answer, or the bridge has ended, 2
wrong usage or configuration.
`)
	asJSON := c.Flags().Bool("json", false, "print one JSON object a line, with the published event as\nits value")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, args []string) error {
		var failed error
		columns, ok := terminal.Columns(p.stdout)
		narrow := ok && columns < tailColumns
		begin := func() {
			if !*asJSON {
				_, failed = io.WriteString(p.stdout, tailRow(narrow, "TIME", "TABLE", "TYPE", "KEY", "ORIGIN", "DELAY", "ID"))
			}
		}
		err := bridge.Tail(ctx, strings.Join(args, ""), begin, func(one httpapi.TailItem) error {
			if failed != nil {
				return failed
			}
			text := tailLine(&one, narrow)
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
func tailLine(one *httpapi.TailItem, narrow bool) string {
	e := one.Event
	if e == nil {
		return fmt.Sprintf("… %s left out\n", terminal.Count(one.LeftOut, "event"))
	}
	delay := "-"
	if e.DelaySeconds != nil {
		delay = seconds(*e.DelaySeconds)
	}
	at, origin, id := e.AcknowledgedAt.Local().Format("15:04:05.000"), e.Origin, e.ID
	if e.DeadLetter {
		id += " refused by the bus, a dead letter"
	}
	if e.DeadLetter && narrow {
		origin = "refused"
	}
	return tailRow(narrow, at, terminal.Visible(e.Shard), e.Type, terminal.Visible(e.Key), origin, delay, id)
}

// tailRow is a line of a tail. A narrow one cuts long names.
func tailRow(narrow bool, at, shard, kind, key, origin, delay, id string) string {
	if !narrow {
		return fmt.Sprintf(tailFormat, at, shard, kind, key, origin, delay, id)
	}
	at = strings.SplitN(at, ".", 2)[0]
	return fmt.Sprintf(narrowTail, at, terminal.Cut(shard, 14), terminal.Cut(kind, 22), terminal.Cut(key, 10), origin, delay)
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
