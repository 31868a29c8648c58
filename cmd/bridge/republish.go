package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
)

func republishCommand(p *process) *cobra.Command {
	c := newCommand("republish <stream>", "publish rows again that were published, or show how far that is")
	var r httpapi.RepublishRequest
	var rate int
	flags := c.Flags()
	selects(c, &r.Table, "table", "of one `TABLE` alone, as bridge status names it")
	flags.Uint64Var(&r.From, "from", 0, "the first `ID`; without it the first row")
	flags.Uint64Var(&r.To, "to", 0, "the last `ID`; without it the last one that is published")
	flags.StringArrayVar(&r.Keys, "key", nil, "an entity by the `KEY` of its messages; may be repeated")
	selects(c, &r.Where, "where", "rows that match a `CONDITION` in SQL, as FILTER is one")
	flags.BoolVar(&r.All, "all", false, "the full list of the stream, between boundaries")
	flags.IntVar(&rate, "rate", httpapi.DefaultRepublishRate, "at most `N` rows a second; 0 for no bound")
	flags.BoolVar(&r.Cancel, "cancel", false, "end what is under way; what is published stays")
	return p.asks(c, func(ctx context.Context, bridge *httpapi.Client, args []string) error {
		r.Stream = args[0]
		asks := false
		for _, name := range []string{"from", "to", "key", "where", "all", "rate", "cancel"} {
			asks = asks || flags.Changed(name)
		}
		if flags.Changed("rate") {
			r.Rate = &rate
		}
		if !asks {
			return p.showRepublish(ctx, bridge, r.Stream, r.Table)
		}
		if err := r.Check(); err != nil {
			return usageErrorf("%v", err)
		}
		done, err := bridge.Republish(ctx, r)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%w: where no bridge runs nothing is published", err)
		}
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: publishing again, of %s; bridge republish %s shows how far that is\n", done.Stream, terminal.Count(done.Shards, "table"), done.Stream)
		if r.Cancel {
			text = fmt.Sprintf("%s: cancelled, of %s\n", done.Stream, terminal.Count(done.Shards, "table"))
		}
		err = p.print(text)
		if done.NotOnBus != "" {
			err = errors.Join(err, errors.New(string(done.NotOnBus)))
		}
		return err
	})
}

func (p *process) showRepublish(ctx context.Context, bridge *httpapi.Client, stream, table string) error {
	status, err := bridge.Working(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	var failed error
	known := false
	for i := range status.Streams {
		if of := &status.Streams[i]; of.Name == stream && of.List != nil && table == "" {
			fmt.Fprintln(&text, listLine(of.List))
			if of.List.Error != "" {
				failed = fmt.Errorf("the full list: %s", of.List.Error)
			}
		}
	}
	for of, one := range tablesOf(&status) {
		if of.Name != stream || table != "" && one.Shard != table {
			continue
		}
		known = true
		if one.Republish == nil {
			continue
		}
		fmt.Fprintln(&text, republishLine(one.Shard, one.Republish))
		if one.Republish.Error != "" {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", one.Shard, one.Republish.Error))
		}
	}
	switch {
	case !known:
		return fmt.Errorf("no such stream and table is configured: bridge status lists them")
	case text.Len() == 0:
		text.WriteString("nothing was asked to be published again\n")
	}
	return errors.Join(p.print(text.String()), failed)
}

func listLine(r *shard.RepublishStatus) string {
	text := fmt.Sprintf("full list %s  %s, asked %s", cmp.Or(r.List, "-"), r.State, r.AskedAt.UTC().Format(time.RFC3339))
	if !r.EndedAt.IsZero() {
		text += ", ended " + r.EndedAt.UTC().Format(time.RFC3339)
	}
	if r.Waits != "" {
		text += "; it waits: " + terminal.OneLine(string(r.Waits))
	}
	return text
}

func republishLine(table string, r *shard.RepublishStatus) string {
	what, far := fmt.Sprintf("ids %d to %d", r.From, r.To), fmt.Sprintf(" %3.0f %%", r.Percent)
	if r.To == math.MaxUint64 {
		what = fmt.Sprintf("ids from %d on", r.From)
		if r.State != stream.RepublishDone {
			far = ""
		}
	}
	if r.Keys > 0 {
		what = terminal.Count(r.Keys, "key")
	}
	if r.Where != "" {
		what += " where " + string(r.Where)
	}
	text := fmt.Sprintf("%s  %s%s  %s, asked %s: %s again, %d of rows that had changed",
		terminal.Visible(table), r.State, far, terminal.OneLine(what), r.AskedAt.UTC().Format(time.RFC3339), terminal.Count(int(r.Rows), "event"), r.Changed)
	if r.Refused > 0 {
		text += fmt.Sprintf(", entities not in the list, whose events are dead letters: %d", r.Refused)
	}
	if n := r.Rows + r.Changed; r.State == stream.RepublishDone && n < uint64(r.Keys) {
		text += ", nothing for " + terminal.Count(r.Keys-int(n), "key")
	}
	if r.EndedAt.IsZero() && r.Rate > 0 {
		text += fmt.Sprintf(", at most %d rows a second", r.Rate)
	}
	if r.Waits != "" {
		text += "; it waits: " + terminal.OneLine(string(r.Waits))
	}
	return text
}
