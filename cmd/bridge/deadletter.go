package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
)

type deadLetterJob struct {
	// stream and shard are empty, row is nil where all are meant.
	stream, shard string
	row           *uint64
	dryRun, json  bool
}

func (p *process) readDeadLetters(ctx context.Context, job *deadLetterJob, command string) (cfg *config.Config, found deadletter.Found, err error) {
	if cfg, err = p.load(); err != nil {
		return nil, found, err
	}
	destinations, err := cfg.DeadLetters()
	if err != nil {
		return nil, found, err
	}
	if names := cfg.StreamNames(); job.stream != "" && !slices.Contains(names, job.stream) {
		return nil, found, usageErrorf("no stream is configured as %q: there are %s", job.stream, strings.Join(names, ", "))
	}
	wants := func(l *sink.DeadLetterDocument) bool {
		return (job.stream == "" || l.Stream == job.stream) && (job.shard == "" || l.Shard == job.shard) && (job.row == nil || l.RowID == *job.row)
	}
	bar := p.newBar(!job.json)
	defer bar.Stop()
	bus, err := app.OpenReading(ctx, cfg, p.waitLog(cfg), driver.Reading{Destinations: destinations, Command: command})
	if err != nil {
		return nil, found, interrupted(ctx, fmt.Errorf("read the dead letters at %s: %w", strings.Join(destinations, ", "), err), "nothing was done")
	}
	found, err = deadletter.Read(ctx, bus, cfg.DomainID, wants, func(done, total uint64) { bar.ShowBar("reading the dead letters", done, total) })
	return cfg, found, interrupted(ctx, errors.Join(err, bus.Close()), "nothing was done")
}

func keyCell(key string) string {
	const most = 40
	return terminal.Cut(terminal.Visible(key), most)
}

type deadLetterReport struct {
	DeadLetters []deadLetterView `json:"letters"`
	// Others counts the messages at the destination that are no dead letters.
	Others int `json:"others"`
}

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
	c := newCommand("list", "list the dead letters: rows that the bus refused")
	job := &deadLetterJob{}
	selects(c, &job.stream, "stream", "only the dead letters of this stream, such as `orders`")
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

func deadLetterResend(p *process) *cobra.Command {
	c := newCommand("resend", "publish what is true of those rows now")
	job := &deadLetterJob{}
	selects(c, &job.stream, "stream", "only the dead letters of this stream, such as `orders`")
	selects(c, &job.shard, "shard", "only those of this table, such as `orders_07`")
	c.Flags().Func("row", "only those of this row, such as `17`", func(text string) error {
		row, err := strconv.ParseUint(text, 10, 64)
		if err != nil || job.row != nil {
			return fmt.Errorf("invalid row ID %q: use a whole number, once", text)
		}
		job.row = &row
		return nil
	})
	c.Flags().BoolVar(&job.dryRun, "dry-run", false, "print what would be published")
	c.Flags().BoolVar(&job.json, "json", false, "print what became of each dead letter as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		bridge, err := p.newClient()
		if err != nil {
			return err
		}
		cfg, found, err := p.readDeadLetters(ctx, job, "bridge deadletter resend")
		if err != nil {
			return err
		}
		var sent []app.Resent
		if len(found.Messages) == 0 {
			if err := knownTable(cfg, job); err != nil {
				return err
			}
		} else {
			if sent, err = p.sendDeadLetters(ctx, cfg, bridge, found.Messages, job); err != nil {
				return interrupted(ctx, err, "what was published stays so, type the command again for the others")
			}
		}
		list, left := sentList{DryRun: job.dryRun, DeadLetters: []sentDeadLetterView{}}, 0
		for i := range sent {
			l := &sent[i]
			list.DeadLetters = append(list.DeadLetters, sentDeadLetterView{deadLetterViewOf(&l.Message), l.State, null.Text(l.Event), null.Text(l.Type), null.Text(l.Why)})
			if !l.State.Done() {
				left++
			}
		}
		list.Good = left == 0
		err = p.show(job.json, list, sentText(sent, job.dryRun))
		if left > 0 {
			err = errors.Join(err, fmt.Errorf("something is left to do for %s", terminal.Count(left, "dead letter")))
		}
		return err
	}
	return c
}

// knownTable refuses a table that no stream of the job has, and says what these have in TABLE.
func knownTable(cfg *config.Config, job *deadLetterJob) error {
	var all []string
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		if job.shard == "" || slices.Contains(s.Tables, job.shard) || cfg.Matched(s, job.shard) {
			return nil
		}
		if job.stream == "" || job.stream == s.Name {
			all = append(all, s.Table)
		}
	}
	return usageErrorf("no table is configured as %q: there are %s", job.shard, strings.Join(all, ", "))
}

// sendDeadLetters has a running bridge send dead letters again, or does so itself if none
// listens there.
func (p *process) sendDeadLetters(ctx context.Context, cfg *config.Config, bridge *httpapi.Client, found []deadletter.Message, job *deadLetterJob) (sent []app.Resent, err error) {
	status, err := bridge.Working(ctx)
	alone := errors.Is(err, syscall.ECONNREFUSED)
	if err != nil && !alone {
		return nil, err
	}
	still := make(stillTables)
	sendTo := func(ctx context.Context, bridge asked) (err error) {
		sent, err = app.ResendEach(ctx, found, job.dryRun, func(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
			if shardOf(&status, request.Stream, request.Shard) == nil {
				return nil, httpapi.ErrNoStream
			}
			if why := still[tableName{request.Stream, request.Shard}]; why != "" {
				return nil, errors.New(why)
			}
			return bridge.Resend(ctx, request)
		})
		return err
	}
	// Only the streams that have dead letters are opened.
	some := app.Keep(cfg, func(s *config.Stream) bool {
		return slices.ContainsFunc(found, func(l deadletter.Message) bool {
			return l.Stream == s.Name && (slices.Contains(s.Tables, l.Shard) || cfg.Matched(s, l.Shard))
		})
	})
	if !alone || len(some.Streams) == 0 {
		err := sendTo(ctx, bridge)
		return sent, err
	}
	line := p.newLine(!job.json)
	defer line.Stop()
	_, err = app.RunInside(ctx, app.InsideOptions{Config: some, Logger: p.waitLog(cfg), DryRun: job.dryRun, Kept: true}, func(ctx context.Context, bridge *app.Inside) (err error) {
		if status, err = awaitTails(ctx, bridge, reconcile.Mode{}, still, line); err == nil {
			err = sendTo(ctx, bridge)
		}
		return err
	})
	return sent, err
}

// sendStates are what becomes of dead letters, in the order of the sums, and sendWords in words.
var (
	sendStates = []shard.ResendState{shard.ResendPublished, shard.ResendDone, shard.ResendRefused, shard.ResendLeft}
	sendWords  = map[shard.ResendState]string{shard.ResendDone: "nothing to do", shard.ResendRefused: "refused again"}
)

func sentText(sent []app.Resent, dryRun bool) string {
	if len(sent) == 0 {
		return "there are no dead letters\n"
	}
	rows, counts := [][]any{{"STREAM", "SHARD", "ROW", "KEY", "REFUSED", "NOW"}}, make(map[shard.ResendState]int)
	for i := range sent {
		l := &sent[i]
		counts[l.State]++
		now := cmp.Or(sendWords[l.State], string(l.State))
		if l.State == shard.ResendPublished {
			now += strings.TrimRight(": "+l.Type+" "+l.Event, ": ")
		}
		if l.Why != "" {
			now += ": " + terminal.OneLine(l.Why)
		}
		rows = append(rows, []any{l.Stream, l.Shard, l.RowID, keyCell(l.Key), l.Message.EventType, now})
	}
	var sums []string
	for _, state := range sendStates {
		if n := counts[state]; n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, state))
		}
	}
	text := terminal.Table(3, rows) + terminal.Count(len(sent), "dead letter") + ": " + strings.Join(sums, ", ") + "\n"
	if dryRun {
		text += "dry run: nothing was published\n"
	}
	return text
}

type sentList struct {
	Good        bool                 `json:"good"`
	DryRun      bool                 `json:"dryRun"`
	DeadLetters []sentDeadLetterView `json:"letters"`
}

type sentDeadLetterView struct {
	deadLetterView
	State shard.ResendState `json:"fate"`
	// SentEvent and SentType are those of the event that was published, null where none was.
	SentEvent null.Text `json:"sentEvent"`
	SentType  null.Text `json:"sentType"`
	Why       null.Text `json:"why"`
}
