package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bridge/internal/app"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/deadletter"
	"bridge/internal/option"
	"bridge/sink"
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

const deadLetterListDetails = `
A dead letter that is there several times is printed once, with how often. A
missing topic, subject or stream is an error; where BRIDGE_DEAD_LETTER is not
set there are none.

  --stream   only the dead letters of this stream
  --json     print the dead letters as JSON

Exit status: 0, also when there are none, 1 when the bus could not be read,
2 wrong usage or configuration.
`

// deadLetterJob is what the commands are to do.
type deadLetterJob struct {
	// stream and shard are empty, row is nil where all are meant.
	stream, shard string
	row           *uint64
	dryRun, json  bool
}

func deadLetterJobOf(call cli.Call) (deadLetterJob, error) {
	job := deadLetterJob{stream: call.Values["stream"], shard: call.Values["shard"], dryRun: call.Flags["dry-run"], json: call.Flags["json"]}
	if text, given := call.Values["row"]; given {
		row, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return job, cli.Errorf("invalid row ID %q: use a whole number", text)
		}
		job.row = &row
	}
	return job, nil
}

func (j *deadLetterJob) wants(l *sink.DeadLetterDocument) bool {
	return (j.stream == "" || l.Stream == j.stream) && (j.shard == "" || l.Shard == j.shard) && (j.row == nil || l.RowID == *j.row)
}

func deadLetterList(p *process, ctx context.Context, call cli.Call) error {
	job, err := deadLetterJobOf(call)
	if err != nil {
		return err
	}
	_, found, err := p.readDeadLetters(ctx, job, "bridge deadletter list")
	switch {
	case errors.Is(err, config.ErrNoDeadLetters):
		if _, err := fmt.Fprintf(p.stderr, "no stream has a destination for dead letters (%s is not set): a row that the bus refuses stops its stream\n", config.Naming("")(option.DeadLetter)); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if job.json {
		return p.printJSON(deadLetterReport{DeadLetters: deadLetterViews(found.Messages), Others: found.Others})
	}
	return p.printDeadLetters(found)
}

// readDeadLetters reads the configuration and the dead letters that job is about.
func (p *process) readDeadLetters(ctx context.Context, job deadLetterJob, command string) (*config.Config, deadletter.Found, error) {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return nil, deadletter.Found{}, err
	}
	destinations, err := cfg.DeadLetters()
	if err != nil {
		return nil, deadletter.Found{}, err
	}
	if names := cfg.StreamNames(); job.stream != "" && !slices.Contains(names, job.stream) {
		return nil, deadletter.Found{}, cli.Errorf("no stream is configured as %q: there are %s", job.stream, strings.Join(names, ", "))
	}
	bar := p.newBar(!job.json)
	found, err := readDeadLetters(ctx, cfg, app.Reading{Topics: destinations, Subjects: destinations, Command: command, Logger: p.waitLog(cfg)}, job, func(done, total uint64) { bar.ShowBar("reading the dead letters", done, total) })
	bar.Stop()
	return cfg, found, interrupted(ctx, err, "nothing was done")
}

func readDeadLetters(ctx context.Context, cfg *config.Config, what app.Reading, job deadLetterJob, progress func(done, total uint64)) (found deadletter.Found, err error) {
	bus, err := app.OpenReading(ctx, cfg, what)
	if err != nil {
		return found, fmt.Errorf("read the dead letters at %s: %w", strings.Join(what.Topics, ", "), err)
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	return deadletter.Read(ctx, bus, job.wants, progress)
}
