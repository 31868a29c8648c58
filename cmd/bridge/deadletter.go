package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bridge/internal/deadletter"
	"bridge/sink"
)

const deadLetterDetails = `
A dead letter stands for an event that the bus refuses for good, too large say. It lies at the destination of BRIDGE_DEAD_LETTER, tells
stream, table, row and reason, and stays there for as long as the bus keeps it, whatever became of the row since.
These commands read that destination from its beginning: Kafka, NATS JetStream, or embedded: while bridge is stopped or through its ?listen=.
`

const deadLetterListDetails = `
A letter that is there several times is printed once, with how often. A topic, subject or stream that is not there is an error.

  --stream  the letters of this stream alone
  --json    the letters as JSON

Exit status: 0, also where there are none, 1 when the bus could not be read, 2 wrong usage or configuration.
`

// deadLetterJob is what the commands are to do.
type deadLetterJob struct {
	// stream and shard are empty, row is nil where all are meant.
	stream, shard string
	row           *uint64
	dryRun, json  bool
}

func deadLetterJobOf(call call) (deadLetterJob, error) {
	job := deadLetterJob{stream: call.values["stream"], shard: call.values["shard"], dryRun: call.flags["dry-run"], json: call.flags["json"]}
	if text, given := call.values["row"]; given {
		row, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return job, wrongUsage("%q is no id of a row: write a whole number", text)
		}
		job.row = &row
	}
	return job, nil
}

func (j *deadLetterJob) wants(l *sink.Letter) bool {
	return (j.stream == "" || l.Stream == j.stream) && (j.shard == "" || l.Shard == j.shard) && (j.row == nil || l.RowID == *j.row)
}

func deadLetterList(p *process, ctx context.Context, call call) error {
	job, err := deadLetterJobOf(call)
	if err != nil {
		return err
	}
	_, found, err := p.readDeadLetters(ctx, job, "bridge deadletter list")
	switch {
	case err != nil:
		return err
	case job.json:
		return p.printJSON(letterList{Letters: letterViews(found.Letters), Others: found.Others})
	}
	return p.printLetters(found)
}

// readDeadLetters reads the configuration and the letters that job is about.
func (p *process) readDeadLetters(ctx context.Context, job deadLetterJob, command string) (*Config, deadletter.Found, error) {
	cfg, err := loadConfig(p.environ, p.secrets)
	if err != nil {
		return nil, deadletter.Found{}, err
	}
	destinations, err := cfg.deadLetters()
	if err != nil {
		return nil, deadletter.Found{}, err
	}
	if names := namesOf(cfg.Streams); job.stream != "" && !slices.Contains(names, job.stream) {
		return nil, deadletter.Found{}, wrongUsage("no stream is configured as %q: there are %s", job.stream, strings.Join(names, ", "))
	}
	bar := p.newProgressBar(!job.json)
	found, err := readLetters(ctx, cfg, reading{destinations, destinations, command}, job, func(done, total uint64) { bar.show("reading the dead letters", done, total) })
	bar.stop()
	return cfg, found, interrupted(ctx, err, "nothing was done")
}

// deadLetters returns where the dead letters of all streams go, each once and in order. That there is none is a fault.
func (c *Config) deadLetters() ([]string, error) {
	var all []string
	for i := range c.Streams {
		if to := c.Streams[i].DeadLetter; to != "" {
			all = append(all, to)
		}
	}
	if len(all) == 0 {
		return nil, &configError{[]fault{{prefix + "DEAD_LETTER",
			"is not set, so no row is put aside: a row that the bus refuses stops its stream. Set it to a topic or subject for dead letters"}}}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func readLetters(ctx context.Context, cfg *Config, what reading, job deadLetterJob, progress func(done, total uint64)) (found deadletter.Found, err error) {
	bus, err := openReading(ctx, cfg, what)
	if err != nil {
		return found, fmt.Errorf("read the dead letters at %s: %w", strings.Join(what.topics, ", "), err)
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	return deadletter.Read(ctx, bus, job.wants, progress)
}
