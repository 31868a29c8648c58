package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/terminal"
)

// printOutcomes prints what became of the shards. The error says that deletes were held back or a
// run failed.
func (p *process) printOutcomes(outcomes []app.Outcome, job reconcileJob) (err error) {
	bad := badOutcomes(outcomes)
	if !job.json {
		return errors.Join(p.print(outcomesText(outcomes, job.mode.DryRun)), bad)
	}
	for _, o := range outcomes {
		if o.Error != nil {
			*o.Error = p.secrets.Clean(*o.Error)
		}
	}
	return errors.Join(p.printJSON(struct {
		Good         bool          `json:"good"`
		DryRun       bool          `json:"dryRun"`
		AllowDeletes bool          `json:"allowDeletes"`
		Shards       []app.Outcome `json:"shards"`
	}{bad == nil, job.mode.DryRun, job.mode.AllowDeletes, outcomes}), bad)
}

// badOutcomes counts what was held back or failed.
func badOutcomes(outcomes []app.Outcome) error {
	guarded, failed := 0, 0
	for _, o := range outcomes {
		switch {
		case o.Error != nil:
			failed++
		case o.Guard != nil:
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

// outcomesText is a table of the differences, then what there is to say about single shards. What a
// release stream cannot have is "-": a zero would say that it was compared.
func outcomesText(outcomes []app.Outcome, dryRun bool) string {
	alone := slices.ContainsFunc(outcomes, func(o app.Outcome) bool { return o.Published != nil })
	columns := []any{"STREAM", "SHARD", "ROWS", "ADDED", "MODIFIED", "DELETED", "MISSED", "ABSENT"}
	if alone {
		columns = append(columns, "PUBLISHED")
	}
	rows, release := [][]any{append(columns, "TOOK")}, []string(nil)
	for i := range outcomes {
		o := &outcomes[i]
		cells := []any{o.Stream, o.Shard, o.Rows, o.Added, o.Modified, o.Deleted, o.Missed, o.Absent}
		if o.Compared == app.UnpolledIDs {
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
		rows = append(rows, append(cells, took(o)))
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

// took is how long the run took, "-" where it was cut short.
func took(o *app.Outcome) string {
	if o.StartedAt == nil || o.EndedAt == nil {
		return "-"
	}
	return o.EndedAt.Sub(*o.StartedAt).Round(time.Millisecond).String()
}

// writeRemarks writes what the numbers do not say.
func writeRemarks(text *strings.Builder, o *app.Outcome) {
	say := func(format string, args ...any) {
		fmt.Fprintf(text, "%s %s: %s\n", terminal.Visible(o.Stream), terminal.Visible(o.Shard), terminal.Visible(fmt.Sprintf(format, args...)))
	}
	for _, one := range []struct {
		what string
		why  *string
	}{{"failed: ", o.Error}, {"", o.Guard}, {"absence was not judged: ", o.Unjudged}} {
		if one.why != nil {
			say("%s%s", one.what, terminal.OneLine(*one.why))
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
