package main

import (
	"errors"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/contract"
)

func schemaCommand(p *process) *cobra.Command {
	c := newCommand("schema [<stream> ...]", "print what the events look like, for those who consume them", `
It prints the JSON Schema (draft 2020-12) of each event of each stream, or of
the streams that are named, by the columns that the tables have now: a JSON
object with a member for each stream, and in it one for each operation. It
reads the columns and one row of each table, asks no bus and writes nothing.

Exit status: 0 when it is printed, 1 when a table cannot be read or its columns
make no event, which leaves out its stream, 2 when the configuration is wrong.
`)
	asyncAPI := c.Flags().Bool("asyncapi", false, "print one AsyncAPI 3 document: the servers of the bus, topics\n"+
		"or subjects, headers, schemas and an example of each event")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := p.loadTables(c.Context(), args...)
		if err != nil {
			return err
		}
		chosen, err := choose(args, cfg.StreamNames())
		if err != nil {
			return err
		}
		streams, leftOut := app.Describe(c.Context(), cfg, chosen)
		switch {
		case leftOut != nil && c.Context().Err() != nil:
			return errors.New("reading the columns was interrupted")
		case leftOut != nil && len(streams) == 0:
			return leftOut
		}
		var text []byte
		if *asyncAPI {
			text, err = contract.AsyncAPI(cfg.DomainID, app.ServersOf(cfg), streams)
		} else {
			text, err = contract.Schemas(streams)
		}
		if err == nil {
			_, err = p.stdout.Write(text)
		}
		return errors.Join(err, leftOut)
	}
	return c
}
