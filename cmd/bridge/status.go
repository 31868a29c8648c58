package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/internal/httpapi"
	"bridge/internal/terminal"
)

const statusDetails = `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080) and reads no
other variable. It prints who works and who waits of a standby group, and each
shard with its state, position, lag and last error.

  --json   print /api/v1/status

Exit status: 0 it answered, 1 no answer, 2 when the address is wrong.
`

func statusCommand(p *process, ctx context.Context, call call) error {
	bridge, err := p.newClient()
	if err != nil {
		return err
	}
	status, err := bridge.Status(ctx)
	if err != nil {
		return err
	}
	if call.flags["json"] {
		return p.printJSON(status)
	}
	_, err = io.WriteString(p.stdout, p.secrets.Clean(statusText(&status)))
	return err
}

// statusText is a status for people.
func statusText(s *httpapi.Status) string {
	var text strings.Builder
	fmt.Fprintf(&text, "runs since %s, %s\n", s.Started.Format(time.RFC3339), s.Delivery)
	if s.Standby != nil {
		text.WriteString(standbyText(s.Standby))
	}
	text.WriteByte('\n')
	var rows strings.Builder
	rows.WriteString("STREAM\tSHARD\tSTATE\tPOSITION\tLAG\tLAST ERROR\n")
	for _, stream := range s.Streams {
		for i := range stream.Shards {
			shard := &stream.Shards[i]
			lag, last := "unknown", ""
			if shard.LagSeconds != nil {
				lag = strconv.FormatFloat(*shard.LagSeconds, 'f', 1, 64) + " s"
			}
			if shard.LastError != nil {
				last = terminal.OneLine(*shard.LastError)
			}
			fmt.Fprintf(&rows, "%s\t%s\t%s\t%d\t%s\t%s\n", stream.Name, shard.Shard, shard.State, shard.Position, lag, last)
		}
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder takes all.
	_, _ = io.WriteString(table, rows.String())
	_ = table.Flush()
	return text.String()
}

// waitingText says whether a member that waits could take over.
func waitingText(w *httpapi.WaitingMember) string {
	switch {
	case len(w.Differing) > 0:
		return "refused, because these differ: " + strings.Join(w.Differing, ", ")
	case w.Ready:
		return "ready"
	}
	return "not ready: it has not read the bus to its end"
}

// standbyText says who works of a standby group.
func standbyText(s *httpapi.StandbyStatus) string {
	var text strings.Builder
	fmt.Fprintf(&text, "standby group %s: this process, %s on %s, ", s.Group, s.Member, s.Host)
	since := ""
	if s.Since != nil {
		since = " since " + s.Since.Format(time.RFC3339)
	}
	switch {
	case s.Works:
		fmt.Fprintf(&text, "works%s\n", since)
	case s.Working == nil:
		text.WriteString("waits; who works is not known now\n")
	default:
		fmt.Fprintf(&text, "waits; %s on %s works%s\n", *s.Working, s.WorkingHost, since)
	}
	if len(s.Differing) > 0 {
		fmt.Fprintf(&text, "  it is refused, because these differ: %s\n", strings.Join(s.Differing, ", "))
	}
	for i := range s.Waiting {
		if w := &s.Waiting[i]; w.Member != s.Member {
			fmt.Fprintf(&text, "  %s on %s waits, %s\n", w.Member, w.Host, waitingText(w))
		}
	}
	if s.Error != nil {
		fmt.Fprintf(&text, "  %s\n", terminal.OneLine(*s.Error))
	}
	return text.String()
}
