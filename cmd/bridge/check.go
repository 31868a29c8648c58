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
	c := newCommand("check", "look for what is in the way or unsafe, change nothing")
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
	c := newCommand("verify", "compare the whole bus with the tables, change nothing")
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
	c := newCommand("schema [<stream> ...]", "print what the events look like, for those who consume them")
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
