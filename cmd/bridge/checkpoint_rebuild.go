package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/progress"
	"example.org/bridge/internal/terminal"
)

func checkpointRebuild(p *process) *cobra.Command {
	c := newCommand("rebuild <stream>", "have the next start read a stream from the bus again", checkpointDetails+`
What is kept of the stream is dropped, and the next start makes it again from
all that the bus has. Rows that are on the bus are not published again; START
and former set and reset commands hold. A reconcile follows at once.
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		stream := args[0]
		if cfg, err := p.load(); err == nil && cfg.Sink.Scheme == "stdout" {
			return fmt.Errorf("stream %q cannot be rebuilt: events that went to stdout: cannot be read back; to publish from START again: bridge checkpoint reset %s", stream, stream)
		}
		var shards []store.Key
		err := p.withStore(c.Context(), false, stream, func(k *kept) (err error) {
			if shards, err = k.shardsOf(stream); err != nil {
				return err
			}
			return k.Apply(c.Context(), progress.Rebuild(&k.image, stream, time.Now()))
		})
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("%s: the next start reads the bus from the beginning for %s\n", stream, terminal.Count(len(shards), "shard")))
	}
	return c
}
