package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/internal/verify"
)

// differError says that a check found bus and tables to differ, or could not judge some streams.
type differError struct {
	faults int
	unfit  []verify.Unfit
}

func (e *differError) Error() string {
	var said []string
	if e.faults > 0 {
		said = append(said, "the bus and the tables do not fit: "+terminal.Count(e.faults, "kind")+" of fault")
	}
	for _, u := range e.unfit {
		said = append(said, fmt.Sprintf("the stream %s could not be judged, for its table %s", u.Stream, u.Shard))
	}
	return strings.Join(said, "; ")
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
is stopped, or through the address of ?listen=. Memory: 110 to 150 bytes an
entity, 48 to 92 bytes a row of a release stream and 20 to 40 a key of it.

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
		cfg, err := p.loadTables(c.Context())
		if err != nil {
			return err
		}
		bar := p.newBar(!*asJSON)
		report, err := app.Verify(c.Context(), cfg, p.waitLog(cfg), examples, func(s verify.Step) { bar.ShowBar(s.What, s.Done, s.Total) })
		bar.Stop()
		switch {
		case err != nil && c.Context().Err() != nil:
			return errors.New("the check was interrupted")
		case err != nil:
			return err
		}
		err = p.show(*asJSON, report, report.Text())
		if faults := report.KindsOfFault(); err == nil && faults+len(report.Unfit) > 0 {
			return &differError{faults, report.Unfit}
		}
		return err
	}
	return c
}
