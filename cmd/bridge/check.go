package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/contract"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/internal/verify"
)

func unsafeError(blocks, unsafe int) error {
	var parts []string
	if blocks > 0 {
		parts = append(parts, terminal.Count(blocks, "finding")+" marked blocks, which bridge cannot run with")
	}
	if unsafe > 0 {
		parts = append(parts, terminal.Count(unsafe, "finding")+" marked unsafe, with which it may lose or confuse events")
	}
	return errors.New(strings.Join(parts, "; ") + ": do what is said there, then run bridge check again")
}

func checkCommand(p *process) *cobra.Command {
	c := newCommand("check", "look for what is in the way or unsafe, change nothing", `
It reads the configuration as bridge run does, connects to source, sink and
checkpoint, and prints what blocks bridge, what is unsafe and what is unwise,
what to do about it, and the statement or command to type. It writes nothing
and may run beside a running bridge. docs/findings.md explains each finding.

Exit status: 0 when there are at most warnings and notes, 1 when something
blocks bridge or is unsafe, 2 when the configuration is wrong.
`)
	asJSON := c.Flags().Bool("json", false, "print the findings as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		// The check of the source says why it did not list its tables.
		cfg, _ = app.WithTables(c.Context(), cfg)
		line := p.newBar(!*asJSON)
		line.Show("looking at source, sink and checkpoint")
		groups := p.examine(c.Context(), cfg)
		line.Stop()
		if c.Context().Err() != nil {
			return errors.New("the check was interrupted")
		}
		if *asJSON {
			err = p.show(true, check.NewReport(groups, p.secrets.Clean), "")
		} else {
			// It is clean but for its colours.
			_, err = io.WriteString(p.stdout, p.secrets.Clean(check.Text(groups, p.colourful())))
		}
		if n := check.Tally(groups); err == nil && n["blocks"]+n["unsafe"] > 0 {
			return unsafeError(n["blocks"], n["unsafe"])
		}
		return err
	}
	return c
}

// differError is nil where there is nothing to say.
func differError(report *verify.Report) error {
	var said []string
	if faults := report.KindsOfFault(); faults > 0 {
		said = append(said, "the bus and the tables do not fit: "+terminal.Count(faults, "kind")+" of fault")
	}
	for _, u := range report.Unfit {
		said = append(said, fmt.Sprintf("the stream %s could not be judged, for its table %s", u.Stream, u.Shard))
	}
	if len(said) == 0 {
		return nil
	}
	return errors.New(strings.Join(said, "; "))
}

func verifyCommand(p *process) *cobra.Command {
	c := newCommand("verify", "compare the whole bus with the tables, change nothing", `
It reads the bus from its beginning, folds the events per entity, and compares
that with the tables: events that are missing, stale, extra, altered or out of
order, links that lead nowhere, messages that the bus acknowledged and lost,
repeats and where they lie, and what cannot be judged. It reads with code of
its own, uses no checkpoint, writes nothing and may run beside a running bridge:
what does not fit is looked at again, up to three times and a second apart,
before it is reported. A bridge that lags shows as missing rows.
docs/findings.md explains what it finds.

It can read Kafka and NATS JetStream, and the server of embedded: while bridge
is stopped, or through the address of ?listen=. Memory: 170 to 200 bytes an
entity, 56 to 110 bytes a row of a release stream and 20 to 40 a key of it.

What bridge has healed is counted apart and no fault. A stream with a table that
cannot be read is named and not judged, the others are.

It says when it waits for the bus, and gives up after 30 s without an answer.

Exit status: 0 when nothing is wrong, 1 when something is, a stream could not be
judged or the comparison failed, 2 when the configuration is wrong.
`)
	examples := 10
	c.Flags().Func("examples", "how many examples of each finding to print, such as `10`,\nwhich it is without it", func(text string) (err error) {
		if examples, err = strconv.Atoi(text); err != nil || examples < 0 || examples > 10_000 {
			return fmt.Errorf("invalid number of examples %q: use a whole number from 0 to 10000", text)
		}
		return nil
	})
	asJSON := c.Flags().Bool("json", false, "print the whole report as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.load()
		if err != nil {
			return err
		}
		bar := p.newBar(!*asJSON)
		report, err := app.Verify(c.Context(), cfg, nil, p.waitLog(cfg), examples, func(s verify.Step) { bar.ShowBar(s.What, s.Done, s.Total) })
		bar.Stop()
		switch {
		case err != nil && c.Context().Err() != nil:
			return errors.New("the check was interrupted")
		case err != nil:
			return err
		}
		return cmp.Or(p.show(*asJSON, report, report.Text()), differError(report))
	}
	return c
}

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
		cfg, err := p.load()
		if err != nil {
			return err
		}
		chosen, err := choose(args, cfg.StreamNames())
		if err != nil {
			return err
		}
		cfg, unlisted := app.WithTables(c.Context(), cfg, chosen...)
		chosen = slices.DeleteFunc(chosen, func(name string) bool { return len(cfg.Stream(name).Unlisted) > 0 })
		streams, leftOut := app.Describe(c.Context(), cfg, chosen)
		leftOut = errors.Join(unlisted, leftOut)
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
