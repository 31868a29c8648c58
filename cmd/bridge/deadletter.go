package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/sink"
)

const deadLetterDetails = `
A dead letter stands for an event that the bus refuses for good, for example
because it is too large. It lies at the destination of BRIDGE_DEAD_LETTER, names
stream, table, row and reason, and stays there as long as the bus keeps it,
whatever became of the row since. These commands read that destination from its
beginning: Kafka, NATS JetStream, or embedded: while bridge is stopped or
through its ?listen=. They say when they wait for the bus, and give up after
30 s without an answer.
`

// deadLetterJob is what the commands are to do.
type deadLetterJob struct {
	// stream and shard are empty, row is nil where all are meant.
	stream, shard string
	row           *uint64
	dryRun, json  bool
}

// flags adds the flags that both commands have.
func (j *deadLetterJob) flags(c *cobra.Command) {
	c.Flags().StringVar(&j.stream, "stream", "", "only the dead letters of this stream, such as `orders`")
}

func (j *deadLetterJob) wants(l *sink.DeadLetterDocument) bool {
	return (j.stream == "" || l.Stream == j.stream) && (j.shard == "" || l.Shard == j.shard) && (j.row == nil || l.RowID == *j.row)
}

// readDeadLetters reads the configuration and the dead letters that job is about.
func (p *process) readDeadLetters(ctx context.Context, job *deadLetterJob, command string) (cfg *config.Config, found deadletter.Found, err error) {
	var asked []string
	if job.stream != "" {
		asked = []string{job.stream}
	}
	if cfg, err = p.loadTables(ctx, asked...); err != nil {
		return nil, found, err
	}
	destinations, err := cfg.DeadLetters()
	if err != nil {
		return nil, found, err
	}
	if names := cfg.StreamNames(); job.stream != "" && !slices.Contains(names, job.stream) {
		return nil, found, usageErrorf("no stream is configured as %q: there are %s", job.stream, strings.Join(names, ", "))
	}
	bar := p.newBar(!job.json)
	defer bar.Stop()
	bus, err := app.OpenReading(ctx, cfg, p.waitLog(cfg), driver.Reading{Destinations: destinations, Command: command})
	if err != nil {
		return nil, found, interrupted(ctx, fmt.Errorf("read the dead letters at %s: %w", strings.Join(destinations, ", "), err), "nothing was done")
	}
	found, err = deadletter.Read(ctx, bus, job.wants, func(done, total uint64) { bar.ShowBar("reading the dead letters", done, total) })
	return cfg, found, interrupted(ctx, errors.Join(err, bus.Close()), "nothing was done")
}

// keyCell is a key in one cell of a table.
func keyCell(key string) string {
	const most = 40
	return terminal.Cut(terminal.Visible(key), most)
}

// deadLetterReport is what --json prints of the dead letters.
type deadLetterReport struct {
	DeadLetters []deadLetterView `json:"letters"`
	// Others counts the messages at the destination that are no dead letters.
	Others int `json:"others"`
}

// deadLetterView is a dead letter as --json shows it.
type deadLetterView struct {
	Stream      string    `json:"stream"`
	Shard       string    `json:"shard"`
	RowID       uint64    `json:"rowId"`
	Key         string    `json:"key"`
	EventID     string    `json:"eventId"`
	EventType   string    `json:"eventType"`
	Destination string    `json:"destination"`
	Reason      string    `json:"reason"`
	Size        int       `json:"size"`
	First       null.Time `json:"first"`
	Last        null.Time `json:"last"`
	Count       int       `json:"count"`
}

func deadLetterViewOf(l *deadletter.Message) deadLetterView {
	return deadLetterView{
		Stream: l.Stream, Shard: l.Shard, RowID: l.RowID, Key: l.Key, EventID: l.EventID, EventType: l.EventType, Destination: l.Destination,
		Reason: l.Reason, Size: l.Size, First: null.At(l.First), Last: null.At(l.Last), Count: l.Count,
	}
}

func deadLetterList(p *process) *cobra.Command {
	c := newCommand("list", "list the dead letters: rows that the bus refused", deadLetterDetails+`
A dead letter that is there several times is printed once, with how often. A
missing topic, subject or stream is an error; where BRIDGE_DEAD_LETTER is not
set there are none.

Exit status: 0, also when there are none, 1 when the bus could not be read,
2 wrong usage or configuration.
`)
	job := &deadLetterJob{}
	job.flags(c)
	c.Flags().BoolVar(&job.json, "json", false, "print the dead letters as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		_, found, err := p.readDeadLetters(c.Context(), job, "bridge deadletter list")
		if errors.Is(err, config.ErrNoDeadLetters) {
			_, err = fmt.Fprintf(p.stderr, "no stream has a destination for dead letters (%s is not set): a row that the bus refuses stops its stream\n", config.Naming("")(option.DeadLetter))
		}
		if err != nil {
			return err
		}
		report := deadLetterReport{DeadLetters: []deadLetterView{}, Others: found.Others}
		for i := range found.Messages {
			report.DeadLetters = append(report.DeadLetters, deadLetterViewOf(&found.Messages[i]))
		}
		return p.show(job.json, report, deadLettersText(found))
	}
	return c
}

// deadLettersText is a table of dead letters.
func deadLettersText(found deadletter.Found) string {
	text := "there are no dead letters\n"
	if len(found.Messages) > 0 {
		rows := [][]any{{"STREAM", "SHARD", "ROW", "KEY", "EVENT", "BYTES", "WHEN", "TIMES", "REASON"}}
		for i := range found.Messages {
			l, when := &found.Messages[i], "-"
			if !l.First.IsZero() {
				when = l.First.UTC().Format(time.RFC3339)
			}
			rows = append(rows, []any{l.Stream, l.Shard, l.RowID, keyCell(l.Key), l.EventType, l.Size, when, l.Count, terminal.OneLine(l.Reason)})
		}
		text = terminal.Table(3, rows) + terminal.Count(len(found.Messages), "dead letter") + "; bridge deadletter resend publishes what is true of the rows now\n"
	}
	if found.Others > 0 {
		text += "besides them: " + terminal.Count(found.Others, "message") + " that bridge has not put aside\n"
	}
	return text
}
