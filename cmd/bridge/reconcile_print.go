package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/internal/app"
	"bridge/internal/terminal"
)

// printOutcomes prints what became of the shards. The error says that deletes were held back or a
// run failed.
func (p *process) printOutcomes(out io.Writer, outcomes []app.Outcome, job reconcileJob) error {
	bad := badOutcomes(outcomes)
	var err error
	if job.json {
		err = p.printOutcomesJSON(out, outcomes, job, bad == nil)
	} else {
		_, err = io.WriteString(out, p.secrets.Clean(outcomesText(outcomes, job)))
	}
	return errors.Join(err, bad)
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

func (p *process) printOutcomesJSON(out io.Writer, outcomes []app.Outcome, job reconcileJob, good bool) error {
	clean := func(text *string) {
		if text != nil {
			*text = p.secrets.Clean(*text)
		}
	}
	for i := range outcomes {
		clean(outcomes[i].Error)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Good         bool          `json:"good"`
		DryRun       bool          `json:"dryRun"`
		AllowDeletes bool          `json:"allowDeletes"`
		Shards       []app.Outcome `json:"shards"`
	}{good, job.mode.DryRun, job.mode.AllowDeletes, outcomes})
}

// outcomesText is a table of the differences, then what there is to say about single shards.
func outcomesText(outcomes []app.Outcome, job reconcileJob) string {
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	alone := slices.ContainsFunc(outcomes, func(o app.Outcome) bool { return o.Published != nil })
	columns := []string{"STREAM", "SHARD", "ROWS", "ADDED", "MODIFIED", "DELETED", "MISSED", "ABSENT"}
	if alone {
		columns = append(columns, "PUBLISHED")
	}
	_, _ = fmt.Fprintln(table, strings.Join(append(columns, "TOOK"), "\t"))
	for i := range outcomes {
		_, _ = fmt.Fprintln(table, strings.Join(cells(&outcomes[i], alone), "\t"))
	}
	_ = table.Flush()
	for i := range outcomes {
		writeRemarks(&text, &outcomes[i])
	}
	writeCompared(&text, outcomes)
	if job.mode.DryRun {
		text.WriteString("dry run: nothing was published\n")
	}
	return text.String()
}

// cells are the line of a shard in the table. What a release stream cannot have is "-": a zero
// would say that it was looked for.
func cells(o *app.Outcome, alone bool) []string {
	all := []string{terminal.Visible(o.Stream), terminal.Visible(o.Shard)}
	for i, n := range []uint64{o.Rows, o.Added, o.Modified, o.Deleted, o.Missed, o.Absent} {
		cell := strconv.FormatUint(n, 10)
		if rows, missed := i == 0, i == 4; o.Compared == app.UnpolledIDs && !rows && !missed {
			cell = "-"
		}
		all = append(all, cell)
	}
	if alone {
		published := "-"
		if o.Published != nil {
			published = strconv.FormatUint(*o.Published, 10)
		}
		all = append(all, published)
	}
	return append(all, took(o))
}

// writeCompared names the streams of which not all rows were compared.
func writeCompared(text *strings.Builder, outcomes []app.Outcome) {
	var some []string
	for i := range outcomes {
		if name := terminal.Visible(outcomes[i].Stream); outcomes[i].Compared == app.UnpolledIDs && !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	if len(some) > 0 {
		fmt.Fprintf(text, "release streams (%s): only ids that were not published and are no longer polled are compared; MISSED counts the rows under them. bridge verify compares the whole table\n", strings.Join(some, ", "))
	}
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
	say := func(what string, why *string) {
		if why != nil {
			fmt.Fprintf(text, "%s %s: %s%s\n", terminal.Visible(o.Stream), terminal.Visible(o.Shard), what, terminal.OneLine(*why))
		}
	}
	say("failed: ", o.Error)
	say("", o.Guard)
	say("absence was not judged: ", o.Unjudged)
	for _, d := range o.Differences {
		fmt.Fprintf(text, "%s %s: %-8s row %d", terminal.Visible(o.Stream), terminal.Visible(o.Shard), d.What, d.Row)
		if d.Entity != "" {
			fmt.Fprintf(text, ", entity %s", terminal.Visible(d.Entity))
		}
		text.WriteByte('\n')
	}
	total := o.Added + o.Modified + o.Deleted + o.Missed
	if n := uint64(len(o.Differences)); n > 0 && total > n {
		fmt.Fprintf(text, "%s %s: and %d more\n", terminal.Visible(o.Stream), terminal.Visible(o.Shard), total-n)
	}
}
