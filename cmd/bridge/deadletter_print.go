package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/internal/deadletter"
)

// letterList is what --json prints of the letters.
type letterList struct {
	Letters []letterView `json:"letters"`
	// Others counts the messages at the destination that are no dead letters.
	Others int `json:"others"`
}

// letterView is a letter as --json shows it.
type letterView struct {
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

func letterViews(letters []deadletter.Letter) []letterView {
	views := make([]letterView, 0, len(letters))
	for i := range letters {
		views = append(views, letterViewOf(&letters[i]))
	}
	return views
}

func letterViewOf(l *deadletter.Letter) letterView {
	return letterView{
		Stream: l.Stream, Shard: l.Shard, RowID: l.RowID, Key: l.Key, EventID: l.EventID, EventType: l.EventType, Destination: l.Destination,
		Reason: l.Reason, Size: l.Size, First: moment(l.First), Last: moment(l.Last), Count: l.Count,
	}
}

// printLetters prints letters for people.
func (p *process) printLetters(found deadletter.Found) error {
	var text strings.Builder
	if len(found.Letters) == 0 {
		text.WriteString("there are no dead letters\n")
	} else {
		writeLetters(&text, found.Letters)
	}
	writeOthers(&text, found.Others)
	_, err := fmt.Fprint(p.stdout, p.secrets.clean(text.String()))
	return err
}

func writeLetters(text *strings.Builder, letters []deadletter.Letter) {
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "STREAM\tSHARD\tROW\tKEY\tEVENT\tBYTES\tWHEN\tTIMES\tREASON")
	for i := range letters {
		l := &letters[i]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%d\t%s\t%d\t%s\n", visible(l.Stream), visible(l.Shard), l.RowID, keyCell(l.Key), visible(l.EventType),
			l.Size, when(l.First), l.Count, visible(oneLine(l.Reason)))
	}
	_ = table.Flush()
	fmt.Fprintf(text, "%s; bridge deadletter resend publishes what is true of the rows now\n", count(len(letters), "letter"))
}

func writeOthers(text *strings.Builder, others int) {
	if others > 0 {
		fmt.Fprintf(text, "besides them: %s that bridge has not put aside\n", count(others, "message"))
	}
}

// keyCell is a key in one cell of a table.
func keyCell(key string) string {
	const most = 40
	return cut(visible(key), most)
}

// when is a moment for people, "-" where it is not known.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
