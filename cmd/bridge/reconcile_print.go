package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
)

type outcomeOf struct {
	Stream string `json:"stream"`
	Shard  string `json:"shard"`
	// Compared is what of the table was compared: allRows, or of a release stream unpolledIDs.
	Compared string `json:"compared"`
	// Published counts the rows that were published meanwhile, those of the tail among them. It is
	// nil where a running bridge was asked.
	Published *uint64 `json:"published,omitempty"`
	reconcile.Report
}

const (
	allRows     = "rows"
	unpolledIDs = "unpolledIds"

	notCompared = "not compared: "
)

// watch waits for the requests of some streams to be answered.
type watch struct {
	streams []string
	mode    reconcile.Mode
	// still are the tables that are not waited for.
	still stillTables
	// before has when the last run before the requests began, of tables that had one.
	before map[tableName]time.Time
	done   []outcomeOf
}

// newWatch returns a watch of a bridge that has this status before it is asked.
func newWatch(streams []string, mode reconcile.Mode, still stillTables, status httpapi.Status) *watch {
	w := &watch{streams: streams, mode: mode, still: still, before: make(map[tableName]time.Time)}
	for stream, one := range tablesOf(&status) {
		if last := w.last(one.Reconcile); last != nil && !last.StartedAt.IsZero() {
			w.before[tableName{stream.Name, one.Shard}] = last.StartedAt.Time
		}
	}
	return w
}

// runs reports whether a stream has a table that can be reconciled. If none can, its tables are not
// waited for: nothing is asked of them.
func (w *watch) runs(stream *httpapi.StreamStatus) bool {
	why := make(stillTables)
	for i := range stream.Shards {
		one, name := &stream.Shards[i], tableName{stream.Name, stream.Shards[i].Shard}
		switch {
		case w.still[name] != "", one.State == shard.Gone:
		case !stays(stream, one, w.mode):
			return true
		default:
			why[name] = cmp.Or(string(one.Reason), "it is stopped")
		}
	}
	maps.Copy(w.still, why)
	return false
}

// observe adds the ended runs to done. The line says how far the rest is; it is empty once
// everything has ended. rows is how many of the rest are read, waits what it waits for.
func (w *watch) observe(status httpapi.Status) (line string, rows uint64, waits string) {
	tables, name, running, left := 0, "", (*reconcile.Status)(nil), []string(nil)
	for stream, one := range tablesOf(&status) {
		if !slices.Contains(w.streams, stream.Name) {
			continue
		}
		tables++
		table := tableName{stream.Name, one.Shard}
		switch r := one.Reconcile; {
		case slices.ContainsFunc(w.done, func(o outcomeOf) bool { return o.Stream == stream.Name && o.Shard == one.Shard }):
		case w.still[table] != "":
			w.end(stream, one, reconcile.Report{Error: null.Text(notCompared + w.still[table])})
		case r != nil && stays(stream, one, w.mode):
			w.end(stream, one, reconcile.Report{Error: notCompared + cmp.Or(one.Reason, "it is stopped")})
		case r != nil && r.Waiting == 0:
			w.end(stream, one, w.report(table, r))
		default:
			if left = append(left, one.Shard); r != nil && r.Running {
				if rows += r.Rows; running == nil {
					name, running = stream.Name+" "+one.Shard, r
				}
			}
		}
	}
	waits, line = waitsFor(status, left...), "waiting"
	switch {
	case len(left) == 0:
		line = ""
	case running != nil:
		line = progressLine(name, running, tables-len(left), tables)
	case waits != "":
		line += " for " + waits
	case tables > 1:
		line += fmt.Sprintf(", %d of %d tables done", tables-len(left), tables)
	}
	return line, rows, waits
}

func (w *watch) end(stream *httpapi.StreamStatus, one *shard.Status, report reconcile.Report) {
	compared := allRows
	if stream.Kind == event.Release {
		compared = unpolledIDs
	}
	if report.DryRun = w.mode.DryRun; report.Differences == nil {
		report.Differences = []reconcile.Difference{}
	}
	if !w.mode.DryRun && report.Guard == "" && one.Reconcile != nil {
		// Tripped before, and not passed by this run.
		report.Guard = one.Reconcile.Guard
	}
	w.done = append(w.done, outcomeOf{Stream: stream.Name, Shard: one.Shard, Compared: compared, Report: report})
}

// last is the report of the last run in the mode, nil if there is none.
func (w *watch) last(r *reconcile.Status) *reconcile.Report {
	switch {
	case r == nil:
		return nil
	case w.mode.DryRun:
		return r.LastDryRun
	}
	return r.LastRun
}

// report is the report of the run that answered the request: one that ended began after it.
func (w *watch) report(table tableName, r *reconcile.Status) reconcile.Report {
	report := w.last(r)
	before, ran := w.before[table]
	if report == nil || ran && report.Error == "" && report.StartedAt.Equal(before) {
		return reconcile.Report{Error: "the bridge says nothing of the run"}
	}
	return *report
}

func (w *watch) outcomes() []outcomeOf {
	slices.SortFunc(w.done, func(a, b outcomeOf) int {
		return cmp.Or(strings.Compare(a.Stream, b.Stream), strings.Compare(a.Shard, b.Shard))
	})
	return w.done
}

// The error says that deletes were held back or a run failed.
func (p *process) printOutcomes(outcomes []outcomeOf, job reconcileJob) (err error) {
	bad := badOutcomes(outcomes)
	for i := range outcomes {
		outcomes[i].Error = null.Text(p.secrets.Clean(string(outcomes[i].Error)))
	}
	return errors.Join(p.show(job.json, struct {
		Good         bool        `json:"good"`
		DryRun       bool        `json:"dryRun"`
		AllowDeletes bool        `json:"allowDeletes"`
		Shards       []outcomeOf `json:"shards"`
	}{bad == nil, job.mode.DryRun, job.mode.AllowDeletes, outcomes}, outcomesText(outcomes, job.mode.DryRun)), bad)
}

func badOutcomes(outcomes []outcomeOf) error {
	guarded, failed := 0, 0
	for _, o := range outcomes {
		switch {
		case o.Error != "":
			failed++
		case o.Guard != "":
			guarded++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("the reconcile of %s failed", terminal.Count(failed, "table"))
	case guarded > 0:
		return fmt.Errorf("deletes of %s are held back until a person agrees", terminal.Count(guarded, "table"))
	}
	return nil
}

// What a release stream cannot have is "-": a zero would say that it was compared.
func outcomesText(outcomes []outcomeOf, dryRun bool) string {
	alone := slices.ContainsFunc(outcomes, func(o outcomeOf) bool { return o.Published != nil })
	columns := []any{"STREAM", "SHARD", "ROWS", "ADDED", "MODIFIED", "DELETED", "MISSED", "ABSENT"}
	if alone {
		columns = append(columns, "PUBLISHED")
	}
	rows, release := [][]any{append(columns, "TOOK")}, []string(nil)
	for i := range outcomes {
		o := &outcomes[i]
		cells := []any{o.Stream, o.Shard, o.Rows, o.Added, o.Modified, o.Deleted, o.Missed, o.Absent}
		if o.Compared == unpolledIDs {
			cells[3], cells[4], cells[5], cells[7] = "-", "-", "-", "-"
			if name := terminal.Visible(o.Stream); !slices.Contains(release, name) {
				release = append(release, name)
			}
		}
		switch {
		case alone && o.Published != nil:
			cells = append(cells, *o.Published)
		case alone:
			cells = append(cells, "-")
		}
		took := "-"
		if !o.StartedAt.IsZero() && !o.EndedAt.IsZero() {
			took = o.EndedAt.Sub(o.StartedAt.Time).Round(time.Millisecond).String()
		}
		rows = append(rows, append(cells, took))
	}
	var text strings.Builder
	text.WriteString(terminal.Table(3, rows))
	for i := range outcomes {
		writeRemarks(&text, &outcomes[i])
	}
	if len(release) > 0 {
		fmt.Fprintf(&text, "release streams (%s): only ids that were not published and are no longer polled are compared; MISSED counts the rows under them. bridge verify compares the whole table\n", strings.Join(release, ", "))
	}
	if dryRun {
		text.WriteString("dry run: nothing was published\n")
	}
	return text.String()
}

func writeRemarks(text *strings.Builder, o *outcomeOf) {
	say := func(format string, args ...any) {
		fmt.Fprintf(text, "%s %s: %s\n", terminal.Visible(o.Stream), terminal.Visible(o.Shard), terminal.Visible(fmt.Sprintf(format, args...)))
	}
	for _, one := range []struct {
		what string
		why  null.Text
	}{{"failed: ", o.Error}, {"", o.Guard}, {"absence was not judged: ", o.Unjudged}} {
		if one.why != "" {
			say("%s%s", one.what, terminal.OneLine(string(one.why)))
		}
	}
	for _, d := range o.Differences {
		entity := ""
		if d.Entity != "" {
			entity = ", entity " + d.Entity
		}
		say("%-8s row %d%s", d.What, d.Row, entity)
	}
	total := o.Added + o.Modified + o.Deleted + o.Missed
	if n := uint64(len(o.Differences)); n > 0 && total > n {
		say("and %d more", total-n)
	}
}
