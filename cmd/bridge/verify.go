package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"bridge/internal/verify"
	"bridge/source"
)

const verifyDetails = `
It reads the bus from its beginning, folds the events per entity, and compares that with the tables: events that are missing, stale,
extra, altered or out of order, links that lead nowhere, and what cannot be judged. It reads with code of its own, uses no checkpoint,
writes nothing anywhere, and may run beside a bridge: what does not fit is looked at again, up to three times and a
second apart, before it is reported. A bridge that is behind shows as missing rows. docs/operations.md explains what is found.

  --examples  how many examples of each finding to print; 10 without it
  --json      the whole report as JSON

Kafka and NATS JetStream can be read. The server of embedded: can be while bridge is stopped, or through the address of ?listen=.

Memory: 100 to 140 bytes an entity, 40 to 75 bytes a row of a release stream and 20 to 40 a key of it.

Exit status: 0 when nothing is wrong, 1 when something is or the check could not be done, 2 when the configuration is wrong.
`

// differError says that a check found bus and tables to differ.
type differError struct{ faults int }

func (e *differError) Error() string {
	return fmt.Sprintf("the bus and the tables do not fit: %s", count(e.faults, "kind")+" of fault")
}

func verifyCommand(p *process, ctx context.Context, call call) error {
	examples := 10
	if text, given := call.values["examples"]; given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 10_000 {
			return wrongUsage("%q is no number of examples: write a whole number from 0 to 10000", text)
		}
		examples = n
	}
	cfg, err := loadConfig(p.environ, p.secrets)
	if err != nil {
		return err
	}
	bar := p.newProgressBar(!call.flags["json"])
	report, err := runVerify(ctx, cfg, examples, func(s verify.Step) { bar.show(s.What, s.Done, s.Total) })
	bar.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("the check was interrupted")
	case err != nil:
		return err
	case call.flags["json"]:
		err = p.printJSON(report)
	default:
		err = p.printVerification(report)
	}
	if faults := kindsOfFault(report); err == nil && faults > 0 {
		return &differError{faults}
	}
	return err
}

// runVerify opens source and bus, and compares them.
func runVerify(ctx context.Context, cfg *Config, examples int, progress func(verify.Step)) (report *verify.Report, err error) {
	src, err := openSource(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	bus, err := openVerifyBus(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	shards, err := cfg.verifyShards(src)
	if err != nil {
		return nil, err
	}
	if examples == 0 {
		// None at all; zero would be the default.
		examples = -1
	}
	return verify.Run(ctx, verify.Options{Shards: shards, Bus: bus, Examples: examples, Progress: progress})
}

// verifyShards returns every table with what its events look like.
func (c *Config) verifyShards(src source.Source) ([]verify.Shard, error) {
	var shards []verify.Shard
	for i := range c.Streams {
		s := &c.Streams[i]
		template, escape, err := c.template(s)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Name, err)
		}
		for _, table := range s.Tables {
			encoder, err := c.encoder(s, table)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			shards = append(shards, verify.Shard{
				Stream: s.Name, Name: table, Kind: s.Kind, Source: src.Shard(s.spec(table)), Encoder: encoder,
				Zone: s.TimeZone.location, Window: s.StabilityWindow, Latest: s.Start.latest, After: s.Start.after,
				Destinations: []string{string(template.Append(nil, c.vars(s, table), escape))},
			})
		}
	}
	return shards, nil
}
