package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
)

const pauseDetails = `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080); one that
waits as a standby asks the one that works. The pause is part of the progress:
it holds after a restart, and with BRIDGE_CHECKPOINT_URL=bus: also in a process
with another folder. Without bus: a lost folder forgets it.
`

func pauseCommand(p *process) *cobra.Command {
	return changePause(p, false, "pause <stream>", "publish nothing of a stream, or of one of its tables", `
Rows in flight are published first; then nothing of the tables is read or
published until bridge resume: no rows, no late rows, no updates, no reconcile,
no dead letters that are resent. Gaps do not age meanwhile. bridge still reads
its topics, and notices when another process takes over.
`+pauseDetails+`
Exit status: 0 paused, 1 not, or rows are still in flight, or another folder
would not know it, 2 wrong usage.
`)
}

func resumeCommand(p *process) *cobra.Command {
	return changePause(p, true, "resume <stream>", "go on with a stream, or with one of its tables", `
It ends what bridge pause has begun; that of a stream ends the pauses of its
tables, too. Each table goes on behind what was published of it.
`+pauseDetails+`
Exit status: 0 resumed, 1 not, or another folder would not know it, 2 wrong
usage.
`)
}

func changePause(p *process, resume bool, use, short, details string) *cobra.Command {
	c := newCommand(use, short, details)
	table := c.Flags().String("table", "", "of one `TABLE` alone, as bridge status names it")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, args []string) error {
		if c.Flags().Changed("table") && *table == "" {
			return usageErrorf("--table needs a table: leave it out for all tables of the stream")
		}
		done, err := bridge.Pause(ctx, httpapi.PauseRequest{Stream: args[0], Table: *table, Resume: resume})
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
