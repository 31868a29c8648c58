package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/progress"
	"example.org/bridge/internal/terminal"
)

func checkpointReset(p *process) *cobra.Command {
	c := newCommand("reset <stream>", "forget a stream: it begins again where START says", checkpointDetails+`
All shards of the stream lose their checkpoint and begin again where
BRIDGE_STREAM_<NAME>_START says. What the bus has of the stream does not count
any more.
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stream := c.Context(), args[0]
		reset := progress.Reset{Stream: stream, Now: time.Now()}
		if one := p.configured(stream); one != nil {
			reset.Shards = one.Tables
		}
		removed := 0
		err := p.withStore(ctx, false, stream, func(k *kept) error {
			shards, err := k.shardsOf(stream)
			switch {
			case len(shards) > 0 || len(reset.Shards) > 0:
			case err != nil:
				return err
			default:
				return fmt.Errorf("stream %q has no checkpoint of a table yet: set the variables of bridge, so that its tables are known, and type the command again", stream)
			}
			for _, key := range shards {
				if k.image.Shards[key].Started {
					removed++
				}
			}
			if _, err := p.kindOf(ctx, k, stream); err != nil {
				return err
			}
			reset.Epoch = progress.NextEpoch(&k.image, reset.Now)
			return k.Apply(ctx, reset.Batch(&k.image))
		})
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("%s: removed the checkpoint of %s\n", stream, terminal.Count(removed, "shard")))
	}
	return c
}
