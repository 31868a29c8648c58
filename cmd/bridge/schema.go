package main

import (
	"context"
	"errors"

	"bridge/internal/app"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/contract"
)

const schemaDetails = `
It prints the JSON Schema (draft 2020-12) of each event of each stream, or of
the streams that are named, by the columns that the tables have now: a JSON
object with a member for each stream, and in it one for each operation. It
reads the columns and one row of each table, asks no bus and writes nothing.

  --asyncapi   print one AsyncAPI 3 document: the servers of the bus, topics
               or subjects, headers, schemas and an example of each event

Exit status: 0 when it is printed, 1 when a table cannot be read or its columns
make no event, which leaves out its stream, 2 when the configuration is wrong.
`

func schemaCommand(p *process, ctx context.Context, call cli.Call) error {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return err
	}
	chosen, err := choose(call.Arguments, cfg.StreamNames())
	if err != nil {
		return err
	}
	streams, err := app.Describe(ctx, cfg, chosen)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("reading the columns was interrupted")
	case len(streams) == 0 && err != nil:
		return err
	}
	leftOut := err
	var printed any
	if call.Flags["asyncapi"] {
		printed, err = contract.AsyncAPI(cfg.DomainID, app.ServersOf(cfg), streams)
	} else {
		printed, err = contract.SchemasOf(streams)
	}
	if err != nil {
		return err
	}
	text, err := contract.Text(printed)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return errors.Join(err, leftOut)
}
