package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
)

const watchEvery = 2 * time.Second

func statusCommand(p *process) *cobra.Command {
	c := newCommand("status", "show the running bridge: its shards, its standby group")
	one := selection{}
	selects(c, &one.stream, "stream", "show this stream alone, a `NAME`")
	selects(c, &one.state, "state", "show tables in this `STATE` alone, such as stopped")
	watch := c.Flags().Bool("watch", false, "show it again every 2 s, in place on a terminal,\nuntil Ctrl-C; while the bridge does not answer,\nsay so and ask again")
	all := c.Flags().String("all", "", "ask these `HOSTS` and show all tables, as in\nhost-1:8080,host-2:8080")
	asJSON := c.Flags().Bool("json", false, "print /api/v1/status; with --watch one object a line,\nwith --all that of each process, and the totals")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, _ []string) error {
		switch asksAll := c.Flags().Changed("all"); {
		case asksAll && *watch:
			return usageErrorf("--all and --watch do not go together: use watch bridge status --all %s", *all)
		case asksAll:
			found, err := one.ofAll(ctx, *all, bridge)
			if err != nil {
				return err
			}
			return cmp.Or(p.show(*asJSON, found, found.text(time.Now())), found.err())
		case *watch:
			return p.watchStatus(ctx, bridge, one, *asJSON)
		}
		status, err := one.status(ctx, bridge)
		if err != nil {
			return err
		}
		return p.show(*asJSON, status, statusText(&status, time.Now()))
	})
}

// selection says which tables a status shows, all if it is empty.
type selection struct{ stream, state string }

func (s selection) status(ctx context.Context, bridge *httpapi.Client) (httpapi.Status, error) {
	status, err := bridge.StatusOf(ctx, s.stream, s.state)
	if err == nil && s.stream != "" && len(status.Streams) == 0 {
		err = fmt.Errorf("the bridge at %s has no stream %q", bridge.Addr, s.stream)
	}
	return status, err
}

func (p *process) watchStatus(ctx context.Context, bridge *httpapi.Client, one selection, asJSON bool) error {
	screen, encoder := terminal.NewScreen(p.stdout, p.variable("TERM") != "dumb"), json.NewEncoder(p.stdout)
	for w := (statusWatch{}); ; {
		status, err := one.status(ctx, bridge)
		if ctx.Err() != nil {
			return nil
		}
		text, object := w.next(&status, err, time.Now())
		if asJSON {
			err = encoder.Encode(object)
		} else {
			err = screen.Show(p.clean(text))
		}
		if err != nil {
			return err
		}
		if backoff.Pause(ctx, watchEvery) != nil {
			return nil
		}
	}
}

type statusWatch struct {
	// last is the last answer, lastAt its time, away since when there is none.
	last         string
	lastAt, away time.Time
}

// next returns what to show of an answer, or of the error that there was instead: as text and as an
// object. Below an error stands the last answer.
func (w *statusWatch) next(status *httpapi.Status, err error, now time.Time) (text string, object any) {
	if err == nil {
		w.last, w.lastAt, w.away = statusText(status, now), now, time.Time{}
		return w.last, status
	}
	if w.away.IsZero() {
		w.away = now
	}
	why := terminal.OneLine(config.Text(err))
	text = "no answer since " + w.away.Format(time.TimeOnly) + ", asking again: " + why + "\n"
	if w.last != "" {
		text += "\nat " + w.lastAt.Format(time.TimeOnly) + " it was:\n\n" + w.last
	}
	return text, struct {
		Error string    `json:"error"`
		Since time.Time `json:"since"`
	}{why, w.away.UTC()}
}

// mostDetailed is how many tables at most have paragraphs though they run.
const mostDetailed = 20

// statusText is a status for people: a table, then a paragraph about each thing that is not well,
// and of a few tables about missing ids and backlogs.
func statusText(s *httpapi.Status, now time.Time) string {
	t, of := newStatusTable(now), ""
	t.add("", s)
	if s.Share != nil {
		of = fmt.Sprintf("share %d/%d: the other tables are those of other processes\n", s.Share.Index, s.Share.Number)
	}
	return fmt.Sprintf("runs since %s, %s\n", s.Started.Format(time.RFC3339), s.Delivery) + of + standbyText(s.Standby) + totalsText(s.Totals) + "\n" + t.text()
}

type statusTable struct {
	now              time.Time
	rows             [][]any
	reasons, details strings.Builder
}

// newStatusTable returns a table without rows. first are columns before those of all.
func newStatusTable(now time.Time, first ...any) *statusTable {
	return &statusTable{now: now, rows: [][]any{append(first, "STREAM", "TABLE", "STATE", "POSITION", "LAG", "ROWS/S", "MISSING", "RECONCILED")}}
}

// by is the name of the process, where there are several.
func (t *statusTable) add(by string, s *httpapi.Status) {
	var first []any
	process := ""
	if by != "" {
		first, process = []any{by}, by+": "
	}
	writeOutages(&t.reasons, process, s)
	for i := range s.Streams {
		stream := &s.Streams[i]
		writeReason(&t.reasons, process+stream.Name, catchUpReason(&stream.CatchUp), "")
		writeReason(&t.reasons, process+stream.Name, stream.Reason, "bridge check says which tables match")
		for j := range stream.Shards {
			one := &stream.Shards[j]
			position, missing, lag := strconv.FormatUint(one.Position, 10), idsText(one.Gaps.Hot+one.Gaps.Cold+one.Gaps.Unpolled), "unknown"
			if one.NoTail {
				position, missing = "-", "-"
			} else if one.State == shard.Gone && one.Position == 0 {
				position = "-"
			}
			if one.LagSeconds != nil {
				lag = seconds(*one.LagSeconds)
			}
			rate := strconv.FormatFloat(one.Published.RowsPerSecond, 'f', 0, 64)
			t.rows = append(t.rows, append(slices.Clip(first), stream.Name, one.Shard, one.State, position, lag, rate, missing, reconciledText(one.Reconcile, t.now)))
			reason, remedy := one.Reason, one.Remedy
			if reason == "" && one.LastError != "" {
				reason, remedy = "it runs; the last fault was: "+one.LastError, ""
			}
			name := process + stream.Name + " " + one.Shard
			writeReason(&t.reasons, name+", "+string(one.State), reason, remedy)
			writeReason(&t.details, name+", backlog", backlogText(stream.Name, one), "")
			writeReason(&t.details, name+", missing ids", gapsText(one), "")
		}
	}
}

func (t *statusTable) text() string {
	text := terminal.Table(2, t.rows) + t.reasons.String()
	if len(t.rows)-1 <= mostDetailed {
		text += t.details.String()
	}
	return text
}

// totalsText counts all tables by state, nothing for an older bridge, which does not count them.
func totalsText(t *httpapi.Totals) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(t.States)) {
		if n := t.States[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return terminal.Wrap(terminal.Count(t.Shards, "table")+": "+strings.Join(parts, ", "), 0) + "\n"
}

func writeReason(text *strings.Builder, subject string, reason, remedy null.Text) {
	if reason == "" {
		return
	}
	const indent = 2
	fmt.Fprintf(text, "\n%s\n", terminal.Visible(subject))
	for _, one := range []null.Text{reason, remedy} {
		if one != "" {
			fmt.Fprintf(text, "  %s\n", terminal.Wrap(terminal.Visible(string(one)), indent))
		}
	}
}

func writeOutages(text *strings.Builder, process string, s *httpapi.Status) {
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
		if !d.Since.IsZero() {
			one.subject += ", since " + d.Since.Format(time.RFC3339)
		}
		remedy := null.Text("bridge retries until the outage ends")
		if d != s.Checkpoint {
			// It looks into no checkpoint of a bridge that runs.
			remedy += "; bridge check says what to do"
		}
		writeReason(text, process+one.subject, cmp.Or(d.Error, "no error is known"), remedy)
	}
}

func catchUpReason(c *stream.StreamProgress) null.Text {
	switch {
	case c.Error != "":
		return "does not catch up from the bus: " + c.Error
	case c.Ready || c.Messages == 0 && c.Left == 0:
		return ""
	}
	text := fmt.Sprintf("catches up from the bus: %d messages read, %d offsets left", c.Messages, c.Left)
	if c.SecondsLeft >= 1 {
		text += ", about " + seconds(c.SecondsLeft)
	}
	return null.Text(text)
}

// backlogText says how far a table is behind, nothing while it keeps up.
func backlogText(stream string, s *shard.Status) null.Text {
	if s.Backlog == nil {
		return ""
	}
	text := fmt.Sprintf("%s ids up to %d, %.0f %% done", idsText(s.Backlog.IDs), s.Highest, s.Backlog.Percent)
	if s.Backlog.SecondsLeft != nil {
		text += ", " + seconds(*s.Backlog.SecondsLeft) + " left"
	}
	switch s.Backlog.Limit {
	case shard.LimitRate:
		text += ", held back by " + config.Naming(stream)(option.Rate)
	case shard.LimitConnections:
		text += ", held back by " + config.Naming("")(option.SourceConnections)
	}
	return null.Text(text)
}

func gapsText(s *shard.Status) null.Text {
	if s.NoTail {
		return "its ids have no order: reconcile publishes"
	}
	g := &s.Gaps
	var parts []string
	for _, one := range []struct {
		n    uint64
		text string
	}{
		{g.Hot - min(g.Hot, g.InFlight), "looked for at every poll"}, {g.InFlight, "pending: a transaction that is open has inserted them, or another table has to be read first"},
		{g.Cold, "looked for every minute"}, {g.Unpolled, "no longer looked for: left to reconcile"},
	} {
		if one.n > 0 {
			parts = append(parts, idsText(one.n)+" "+one.text)
		}
	}
	if len(parts) > 0 && g.OldestSeconds > 0 {
		parts = append(parts, "the oldest for "+seconds(g.OldestSeconds))
	}
	return null.Text(strings.Join(parts, "; "))
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

func reconciledText(r *reconcile.Status, now time.Time) string {
	switch {
	case r == nil:
		return "-"
	case r.Running:
		return fmt.Sprintf("%.0f %% done", r.Percent)
	case r.LastRun == nil && r.EndedAt.IsZero():
		return "not yet"
	case r.EndedAt.IsZero():
		return "cut short"
	}
	text := seconds(max(0, now.Sub(r.EndedAt.Time).Seconds())) + " ago"
	if n := r.Added + r.Modified + r.Deleted + r.Missed; n > 0 {
		text += ", " + strconv.FormatUint(n, 10) + " differed"
	}
	return text
}

func standbyText(s *standby.Status) string {
	if s == nil {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "standby group %s: this process, %s on %s, ", s.Group, s.Member, s.Host)
	since := ""
	if !s.Since.IsZero() {
		since = " since " + s.Since.Format(time.RFC3339)
	}
	switch {
	case s.Works:
		fmt.Fprintf(&text, "works%s\n", since)
	case s.Working == "":
		text.WriteString("waits; who works is not known now\n")
	default:
		fmt.Fprintf(&text, "waits; %s on %s works%s\n", s.Working, s.WorkingHost, since)
	}
	if len(s.Differing) > 0 {
		fmt.Fprintf(&text, "  it is refused, because these differ: %s\n", strings.Join(s.Differing, ", "))
	}
	for _, w := range s.Waiting {
		could := "not ready: it has not read the bus to its end"
		switch {
		case len(w.Differing) > 0:
			could = "refused, because these differ: " + strings.Join(w.Differing, ", ")
		case w.Ready:
			could = "ready"
		}
		if w.Member != s.Member {
			fmt.Fprintf(&text, "  %s on %s waits, %s\n", w.Member, w.Host, could)
		}
	}
	if s.Error != "" {
		fmt.Fprintf(&text, "  %s\n", terminal.OneLine(string(s.Error)))
	}
	return text.String()
}
