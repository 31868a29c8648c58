package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/progress"
)

func checkpointSet(p *process) *cobra.Command {
	c := newCommand("set <stream> <shard> <id>", "make a shard go on after an id", checkpointDetails+`
Rows up to the id count as published, except for the gaps: ids that were not
seen yet stay missing, and a row that appears there is published. Rows above the
id are published, a second time if need be: what the bus has of them does not
count any more. With the id 0 all rows are published. The stream need not be
configured. After a kill only a part may be done: type the command again. A
release stream goes on with the KEY and the database that are configured then.
Type it where the checkpoint is: a pod without a volume forgets it, unless the
checkpoint is on the bus (BRIDGE_CHECKPOINT_URL=bus:).
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, key := c.Context(), store.Key{Stream: args[0], Shard: args[1]}
		id, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return usageErrorf("invalid ID %q: use a whole number from 0 to 18446744073709551615", args[2])
		}
		if key.Stream == "" || key.Shard == "" {
			return usageErrorf("the names of stream and shard must not be empty")
		}
		var said string
		err = p.withStore(ctx, true, key.Stream, func(k *kept) error {
			kind, err := p.kindOf(ctx, k, key.Stream)
			if err != nil {
				return err
			}
			now := time.Now()
			set := progress.Set{Key: key, Kind: kind, ID: id, Epoch: progress.NextEpoch(&k.image, now), Now: now}
			batch, moved, err := set.Batch(ctx, k)
			if err != nil {
				return err
			}
			if err := k.Apply(ctx, batch); err != nil {
				return err
			}
			if said = fmt.Sprintf("had no checkpoint, is now at id %d", id); k.image.Shards[key].Started {
				said = fmt.Sprintf("id %d is now id %d, %s", moved.From, id, missing(moved))
			}
			return progress.Dispute(ctx, k, key, id, set.Epoch)
		})
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("%s %s: %s\n", key.Stream, key.Shard, said))
	}
	return c
}

// missing says what stays missing of a shard that was put at an id.
func missing(moved progress.Moved) string {
	switch {
	case moved.Damaged != nil:
		return fmt.Sprintf("its gaps are dropped: %v", moved.Damaged)
	case moved.Missing == 0:
		return "no gaps"
	case moved.Missing == 1:
		return "1 id up to there stays missing"
	}
	return fmt.Sprintf("%d ids up to there stay missing", moved.Missing)
}
