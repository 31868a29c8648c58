package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"bridge/internal/app"
	"bridge/internal/httpapi"
	"bridge/internal/shard"
	"bridge/internal/terminal"
)

// fateWords say what became of a dead letter.
var fateWords = map[shard.Fate]string{
	shard.SentSame:     "published: the same event",
	shard.SentCurrent:  "published as it is now",
	shard.Superseded:   "nothing to do: a newer event of the entity followed",
	shard.RowGone:      "nothing to do: the row is gone",
	shard.Moved:        "nothing to do: the entity lives in another table of the stream",
	shard.Ahead:        "left: the tail has yet to come to the row",
	shard.RefusedAgain: "refused again",
	shard.Unknown:      "left: nothing is known of the entity any more, reconcile publishes it if it is there",
	shard.Unproven:     "left: that the row is gone is not proved",
	shard.Unreadable:   "left: it makes no event",
	app.NotConfigured:  "left: no such stream and table is configured",
	app.NotSent:        "failed",
}

// fates are all of them in the order of the sums.
var fates = []shard.Fate{
	shard.SentSame, shard.SentCurrent, shard.Superseded, shard.RowGone, shard.Moved, shard.RefusedAgain, shard.Ahead,
	shard.Unknown, shard.Unproven, shard.Unreadable, app.NotConfigured, app.NotSent,
}

// sentText is a table of the dead letters, then how many of each fate there are.
func sentText(sent []app.Resent, job deadLetterJob) string {
	if len(sent) == 0 {
		return "there are no dead letters\n"
	}
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "STREAM\tSHARD\tROW\tKEY\tREFUSED\tNOW")
	sums := make(map[shard.Fate]int)
	for i := range sent {
		l := &sent[i]
		sums[l.Fate]++
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", terminal.Visible(l.Stream), terminal.Visible(l.Shard), l.RowID, keyCell(l.Key), terminal.Visible(l.Message.EventType), sentWords(l))
	}
	_ = table.Flush()
	var parts []string
	for _, fate := range fates {
		if sums[fate] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", sums[fate], fate))
		}
	}
	fmt.Fprintf(&text, "%s: %s\n", terminal.Count(len(sent), "dead letter"), strings.Join(parts, ", "))
	if job.dryRun {
		text.WriteString("dry run: nothing was published\n")
	}
	return text.String()
}

// sentWords say what became of a dead letter in one line.
func sentWords(l *app.Resent) string {
	text := fateWords[l.Fate]
	if l.Fate == shard.SentCurrent {
		text += ": " + l.Type + " " + l.Event
	}
	if l.Why != "" {
		text += ": " + terminal.OneLine(l.Why)
	}
	return terminal.Visible(text)
}

// sentList is what --json prints of the dead letters.
type sentList struct {
	Good        bool                 `json:"good"`
	DryRun      bool                 `json:"dryRun"`
	DeadLetters []sentDeadLetterView `json:"letters"`
}

// sentDeadLetterView is a dead letter and what became of it as --json shows them.
type sentDeadLetterView struct {
	deadLetterView
	Fate shard.Fate `json:"fate"`
	// SentEvent and SentType are those of the event that was published, null where none was.
	SentEvent *string `json:"sentEvent"`
	SentType  *string `json:"sentType"`
	Why       *string `json:"why"`
}

func sentView(sent []app.Resent, job deadLetterJob, good bool) sentList {
	list := sentList{Good: good, DryRun: job.dryRun, DeadLetters: make([]sentDeadLetterView, 0, len(sent))}
	for i := range sent {
		l := &sent[i]
		list.DeadLetters = append(list.DeadLetters, sentDeadLetterView{deadLetterViewOf(&l.Message), l.Fate, httpapi.Given(l.Event), httpapi.Given(l.Type), httpapi.Given(l.Why)})
	}
	return list
}
