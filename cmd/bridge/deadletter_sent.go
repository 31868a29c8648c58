package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"bridge/internal/httpapi"
	"bridge/internal/pipeline"
	"bridge/internal/terminal"
)

// fateWords say what became of a dead letter.
var fateWords = map[pipeline.Fate]string{
	pipeline.SentSame:     "published: the same event",
	pipeline.SentCurrent:  "published as it is now",
	pipeline.Superseded:   "nothing to do: a newer event of the entity followed",
	pipeline.RowGone:      "nothing to do: the row is gone",
	pipeline.Moved:        "nothing to do: the entity lives in another table of the stream",
	pipeline.Ahead:        "left: the tail has yet to come to the row",
	pipeline.RefusedAgain: "refused again",
	pipeline.Unknown:      "left: nothing is known of the entity any more, reconcile publishes it if it is there",
	pipeline.Unproven:     "left: that the row is gone is not proved",
	pipeline.Unreadable:   "left: it makes no event",
	notConfigured:         "left: no such stream and table is configured",
	notSent:               "failed",
}

// fates are all of them in the order of the sums.
var fates = []pipeline.Fate{
	pipeline.SentSame, pipeline.SentCurrent, pipeline.Superseded, pipeline.RowGone, pipeline.Moved, pipeline.RefusedAgain, pipeline.Ahead,
	pipeline.Unknown, pipeline.Unproven, pipeline.Unreadable, notConfigured, notSent,
}

// sentText is a table of the dead letters, then how many of each fate there are.
func sentText(sent []sentDeadLetter, job deadLetterJob) string {
	if len(sent) == 0 {
		return "there are no dead letters\n"
	}
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "STREAM\tSHARD\tROW\tKEY\tREFUSED\tNOW")
	sums := make(map[pipeline.Fate]int)
	for i := range sent {
		l := &sent[i]
		sums[l.Fate]++
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", terminal.Visible(l.Stream), terminal.Visible(l.Shard), l.RowID, keyCell(l.Key), terminal.Visible(l.Message.EventType), l.words())
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

// words say what became of a dead letter in one line.
func (l *sentDeadLetter) words() string {
	text := fateWords[l.Fate]
	if l.Fate == pipeline.SentCurrent {
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
	Fate pipeline.Fate `json:"fate"`
	// SentEvent and SentType are those of the event that was published, null where none was.
	SentEvent *string `json:"sentEvent"`
	SentType  *string `json:"sentType"`
	Why       *string `json:"why"`
}

func sentView(sent []sentDeadLetter, job deadLetterJob, good bool) sentList {
	list := sentList{Good: good, DryRun: job.dryRun, DeadLetters: make([]sentDeadLetterView, 0, len(sent))}
	for i := range sent {
		l := &sent[i]
		list.DeadLetters = append(list.DeadLetters, sentDeadLetterView{deadLetterViewOf(&l.Message), l.Fate, httpapi.Given(l.Event), httpapi.Given(l.Type), httpapi.Given(l.Why)})
	}
	return list
}
