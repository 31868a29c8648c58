package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/internal/deadletter"
	"bridge/internal/httpapi"
	"bridge/internal/terminal"
)

// deadLetterReport is what --json prints of the dead letters.
type deadLetterReport struct {
	DeadLetters []deadLetterView `json:"letters"`
	// Others counts the messages at the destination that are no dead letters.
	Others int `json:"others"`
}

// deadLetterView is a dead letter as --json shows it.
type deadLetterView struct {
	Stream      string     `json:"stream"`
	Shard       string     `json:"shard"`
	RowID       uint64     `json:"rowId"`
	Key         string     `json:"key"`
	EventID     string     `json:"eventId"`
	EventType   string     `json:"eventType"`
	Destination string     `json:"destination"`
	Reason      string     `json:"reason"`
	Size        int        `json:"size"`
	First       *time.Time `json:"first"`
	Last        *time.Time `json:"last"`
	Count       int        `json:"count"`
}

func deadLetterViews(refused []deadletter.Message) []deadLetterView {
	views := make([]deadLetterView, 0, len(refused))
	for i := range refused {
		views = append(views, deadLetterViewOf(&refused[i]))
	}
	return views
}

func deadLetterViewOf(l *deadletter.Message) deadLetterView {
	return deadLetterView{
		Stream: l.Stream, Shard: l.Shard, RowID: l.RowID, Key: l.Key, EventID: l.EventID, EventType: l.EventType, Destination: l.Destination,
		Reason: l.Reason, Size: l.Size, First: httpapi.Moment(l.First), Last: httpapi.Moment(l.Last), Count: l.Count,
	}
}

// printDeadLetters prints dead letters for people.
func (p *process) printDeadLetters(found deadletter.Found) error {
	var text strings.Builder
	if len(found.Messages) == 0 {
		text.WriteString("there are no dead letters\n")
	} else {
		writeDeadLetters(&text, found.Messages)
	}
	writeOthers(&text, found.Others)
	_, err := fmt.Fprint(p.stdout, p.secrets.Clean(text.String()))
	return err
}

func writeDeadLetters(text *strings.Builder, refused []deadletter.Message) {
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "STREAM\tSHARD\tROW\tKEY\tEVENT\tBYTES\tWHEN\tTIMES\tREASON")
	for i := range refused {
		l := &refused[i]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%d\t%s\t%d\t%s\n", terminal.Visible(l.Stream), terminal.Visible(l.Shard), l.RowID, keyCell(l.Key), terminal.Visible(l.EventType),
			l.Size, when(l.First), l.Count, terminal.Visible(terminal.OneLine(l.Reason)))
	}
	_ = table.Flush()
	fmt.Fprintf(text, "%s; bridge deadletter resend publishes what is true of the rows now\n", terminal.Count(len(refused), "dead letter"))
}

func writeOthers(text *strings.Builder, others int) {
	if others > 0 {
		fmt.Fprintf(text, "besides them: %s that bridge has not put aside\n", terminal.Count(others, "message"))
	}
}

// keyCell is a key in one cell of a table.
func keyCell(key string) string {
	const most = 40
	return terminal.Cut(terminal.Visible(key), most)
}

// when is a moment for people, "-" where it is not known.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
