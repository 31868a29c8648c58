package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
)

// healthTimeout is below the time limit of the image's health check.
var healthTimeout = 4 * time.Second

func healthCommand(p *process) *cobra.Command {
	c := newCommand("health", "ask the running bridge whether it is alive, or ready")
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

func pauseCommand(p *process) *cobra.Command {
	return changePause(p, false, "pause <stream>", "publish nothing of a stream, or of one of its tables")
}

func resumeCommand(p *process) *cobra.Command {
	return changePause(p, true, "resume <stream>", "go on with a stream, or with one of its tables")
}

func changePause(p *process, resume bool, use, short string) *cobra.Command {
	c := newCommand(use, short)
	var table string
	selects(c, &table, "table", "of one `TABLE` alone, as bridge status names it")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, args []string) error {
		done, err := bridge.Pause(ctx, httpapi.PauseRequest{Stream: args[0], Table: table, Resume: resume})
		if errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%w: where no bridge runs nothing is published", err)
		}
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: resumed %s\n", done.Stream, terminal.Count(done.Shards, "table"))
		if !resume {
			text = fmt.Sprintf("%s: %s paused since %s\n", done.Stream, terminal.Count(done.Shards, "table"), done.PausedAt.UTC().Format(time.RFC3339))
		}
		err = p.print(text)
		if done.Publishing > 0 {
			err = errors.Join(err, fmt.Errorf("%s still waits for rows in flight, which the bus or the source holds up: bridge status says when it is paused", terminal.Count(done.Publishing, "table")))
		}
		if done.NotOnBus != "" {
			err = errors.Join(err, errors.New(string(done.NotOnBus)))
		}
		return err
	})
}

// tailFormat is a line of a tail, of tailColumns with an id. narrowTail is one of 79 columns, for a
// terminal that has fewer.
const (
	tailFormat  = "%-12s  %-18s  %-28s  %-18s  %-9s  %8s  %s\n"
	narrowTail  = "%-8s  %-14s  %-22s  %-10s  %-9s  %6s\n"
	tailColumns = 141
)

func tailCommand(p *process) *cobra.Command {
	c := newCommand("tail [<stream>]", "show the events of the running bridge as they go by")
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

func tailRow(narrow bool, at, shard, kind, key, origin, delay, id string) string {
	if !narrow {
		return fmt.Sprintf(tailFormat, at, shard, kind, key, origin, delay, id)
	}
	at = strings.SplitN(at, ".", 2)[0]
	return fmt.Sprintf(narrowTail, at, terminal.Cut(shard, 14), terminal.Cut(kind, 22), terminal.Cut(key, 10), origin, delay)
}

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
