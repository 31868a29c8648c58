package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"bridge/internal/backoff"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/terminal"
)

const statusDetails = `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080) and reads only
BRIDGE_HTTP_TLS_* beside it. It prints who works and who waits of a standby
group, and each table with its state, position and highest id, lag, ids that
were not seen, and last reconcile; then what does not answer, why a table does
not run, and what to do about it.

  --watch  show it again every 2 s, in place on a terminal, until Ctrl-C. While
           the bridge does not answer, it says so and asks again
  --json   print /api/v1/status; with --watch one object a line

Exit status: 0 it answered, 1 no answer, 2 when the address is wrong.
`

// watchEvery is the time between two statuses.
const watchEvery = 2 * time.Second

func statusCommand(p *process, ctx context.Context, call cli.Call) error {
	bridge, err := p.newClient()
	if err != nil {
		return err
	}
	if call.Flags["watch"] {
		return p.watchStatus(ctx, bridge, call.Flags["json"])
	}
	status, err := bridge.Status(ctx)
	if err != nil {
		return err
	}
	if call.Flags["json"] {
		return p.printJSON(status)
	}
	_, err = io.WriteString(p.stdout, p.secrets.Clean(statusText(&status, time.Now())))
	return err
}

// watchStatus shows the status every 2 s until ctx ends.
func (p *process) watchStatus(ctx context.Context, bridge *httpapi.Client, asJSON bool) error {
	screen := terminal.NewScreen(p.stdout, p.variable("TERM") != "dumb")
	w := statusWatch{show: func(text string) error { return screen.Show(p.secrets.Clean(text)) }}
	if asJSON {
		encoder := json.NewEncoder(p.stdout)
		w.object = func(v any) error { return encoder.Encode(v) }
	}
	for {
		status, err := bridge.Status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := w.next(&status, err, time.Now()); err != nil {
			return err
		}
		if backoff.Pause(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// statusWatch shows one status after the other.
type statusWatch struct {
	show func(text string) error
	// object, where it is not nil, prints objects instead.
	object func(any) error
	// last is what was answered last, lastAt when, away since when nothing is.
	last         string
	lastAt, away time.Time
}

// next shows what was answered now, or the error that there was instead.
func (w *statusWatch) next(status *httpapi.Status, err error, now time.Time) error {
	if err != nil {
		if w.away.IsZero() {
			w.away = now
		}
		return w.showAway(err)
	}
	w.away = time.Time{}
	if w.object != nil {
		return w.object(status)
	}
	w.last, w.lastAt = statusText(status, now), now
	return w.show(w.last)
}

// showAway says that there is no answer. Below stands the last one.
func (w *statusWatch) showAway(err error) error {
	since := w.away.Format(time.TimeOnly)
	if w.object != nil {
		return w.object(struct {
			Error string    `json:"error"`
			Since time.Time `json:"since"`
		}{terminal.OneLine(config.Text(err)), w.away.UTC()})
	}
	text := "no answer since " + since + ", asking again: " + terminal.OneLine(config.Text(err)) + "\n"
	if w.last != "" {
		text += "\nat " + w.lastAt.Format(time.TimeOnly) + " it was:\n\n" + w.last
	}
	return w.show(text)
}
