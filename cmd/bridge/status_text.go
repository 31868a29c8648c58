package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/internal/httpapi"
	"bridge/internal/terminal"
)

// statusText is a status for people.
func statusText(s *httpapi.Status, now time.Time) string {
	var text, rows, reasons strings.Builder
	fmt.Fprintf(&text, "runs since %s, %s\n", s.Started.Format(time.RFC3339), s.Delivery)
	if s.Standby != nil {
		text.WriteString(standbyText(s.Standby))
	}
	text.WriteByte('\n')
	writeOutages(&reasons, s)
	rows.WriteString("STREAM\tTABLE\tSTATE\tPOSITION\tHIGHEST\tLAG\tROWS/S\tNOT SEEN\tRECONCILED\n")
	for i := range s.Streams {
		stream := &s.Streams[i]
		writeReason(&reasons, stream.Name, catchUpReason(&stream.CatchUp), "")
		for j := range stream.Shards {
			one := &stream.Shards[j]
			fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", terminal.Visible(stream.Name), terminal.Visible(one.Shard), one.State, positionText(one), one.Highest,
				lagText(one.LagSeconds), rateText(one), notSeenText(one), reconciledText(one.Reconcile, now))
			reason, remedy := reasonOf(one)
			writeReason(&reasons, stream.Name+" "+one.Shard+", "+one.State, reason, remedy)
		}
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder takes all.
	_, _ = io.WriteString(table, rows.String())
	_ = table.Flush()
	return text.String() + reasons.String()
}

// writeReason writes a paragraph about what does not run. It writes nothing without a reason.
func writeReason(text *strings.Builder, subject, reason, remedy string) {
	if reason == "" {
		return
	}
	const indent = 2
	fmt.Fprintf(text, "\n%s\n", terminal.Visible(subject))
	for _, one := range []string{reason, remedy} {
		if one != "" {
			fmt.Fprintf(text, "  %s\n", terminal.Wrap(terminal.Visible(one), indent))
		}
	}
}

// writeOutages writes a paragraph about each dependency of the process that does not answer.
func writeOutages(text *strings.Builder, s *httpapi.Status) {
	for _, one := range []struct {
		subject string
		state   *httpapi.DependencyStatus
	}{
		{"the source does not answer", s.Source}, {"the bus does not answer", s.Bus},
		{"the checkpoint cannot be read or saved", s.Checkpoint}, {"the progress cannot be saved on the bus", s.Progress},
	} {
		d := one.state
		if d == nil || d.Answers == nil || *d.Answers {
			continue
		}
		reason := "no error is known"
		if d.Error != nil {
			reason = *d.Error
		}
		if d.Since != nil {
			one.subject += ", since " + d.Since.Format(time.RFC3339)
		}
		writeReason(text, one.subject, reason, "bridge retries until the outage ends; bridge check says what to do")
	}
}

// reasonOf returns why a table does not run as it should, and what to do about it.
func reasonOf(s *httpapi.ShardStatus) (reason, remedy string) {
	switch {
	case s.Reason != nil && s.Remedy != nil:
		return *s.Reason, *s.Remedy
	case s.Reason != nil:
		return *s.Reason, ""
	case s.LastError != nil:
		return "it runs; the last fault was: " + *s.LastError, ""
	}
	return "", ""
}

// catchUpReason returns why a stream does not read on from the bus, or how far it is.
func catchUpReason(c *httpapi.CatchUpStatus) string {
	switch {
	case c.Error != nil:
		return "does not catch up from the bus: " + *c.Error
	case c.Ready || c.Messages == 0 && c.Left == 0:
		return ""
	}
	text := fmt.Sprintf("catches up from the bus: %d messages read, %d offsets left", c.Messages, c.Left)
	if c.SecondsLeft >= 1 {
		text += ", about " + seconds(c.SecondsLeft)
	}
	return text
}

func lagText(lag *float64) string {
	if lag == nil {
		return "unknown"
	}
	return seconds(*lag)
}

// rateText is how many rows a second are published, and how long a backlog takes.
func rateText(s *httpapi.ShardStatus) string {
	text := strconv.FormatFloat(s.Published.RowsPerSecond, 'f', 0, 64)
	if s.Backlog != nil && s.Backlog.SecondsLeft != nil {
		text += ", " + seconds(*s.Backlog.SecondsLeft) + " left"
	}
	return text
}

// positionText is how far a table is published.
func positionText(s *httpapi.ShardStatus) string {
	if s.NoTail {
		return "-"
	}
	return strconv.FormatUint(s.Position, 10)
}

// notSeenText says how many ids were not seen, or why none is looked for.
func notSeenText(s *httpapi.ShardStatus) string {
	if s.NoTail {
		return "ids have no order: reconcile publishes"
	}
	return gapsText(&s.Gaps)
}

// gapsText says how many ids below the position were not seen.
func gapsText(g *httpapi.GapsStatus) string {
	var parts []string
	for _, one := range []struct {
		n    uint64
		name string
	}{{g.Hot, hotText(g)}, {g.Cold, "cold"}, {g.Unpolled, "unpolled"}} {
		if one.n > 0 {
			parts = append(parts, idsText(one.n)+" "+one.name)
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	if g.OldestSeconds > 0 {
		parts = append(parts, "for "+seconds(g.OldestSeconds))
	}
	return strings.Join(parts, ", ")
}

// hotText says how many of the hot ids an open transaction has inserted.
func hotText(g *httpapi.GapsStatus) string {
	switch {
	case g.InFlight == 0:
		return "hot"
	case g.InFlight >= g.Hot:
		return "hot (pending)"
	}
	return fmt.Sprintf("hot (%d of them pending)", g.InFlight)
}

// idsText writes a number of ids. Where ids hold a time, far more are missing than rows will ever
// have, and their digits tell nothing.
func idsText(n uint64) string {
	text := strconv.FormatUint(n, 10)
	if n < 1e12 {
		return text
	}
	return fmt.Sprintf("over 10^%d", len(text)-1)
}

// reconciledText says how the last reconcile ended and how long ago, or how far one is.
func reconciledText(r *httpapi.ReconcileStatus, now time.Time) string {
	switch {
	case r == nil:
		return "-"
	case r.Running:
		return fmt.Sprintf("%.0f %% done", r.Percent)
	case r.LastRun == nil && r.EndedAt == nil:
		return "not yet"
	}
	ended, counts := r.EndedAt, r.DifferenceCounts
	if r.LastRun != nil {
		ended, counts = r.LastRun.EndedAt, r.LastRun.DifferenceCounts
	}
	if ended == nil {
		return "cut short"
	}
	text := seconds(max(0, now.Sub(*ended).Seconds())) + " ago"
	if n := counts.Added + counts.Modified + counts.Deleted + counts.Missed; n > 0 {
		text += ", " + strconv.FormatUint(n, 10) + " differed"
	}
	return text
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
