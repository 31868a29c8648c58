package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/source"
)

func checkpointSet(p *process) *cobra.Command {
	c := newCommand("set <stream> <shard> <id>", "make a shard go on after an id", checkpointDetails+`
Rows up to the id count as published, except for the gaps: ids that were not
seen yet stay missing, and a row that appears there is published. Rows above the
id are published, a second time if need be: what the bus has of them does not
count any more. With the id 0 all rows are published. Without all variables of
bridge, any name is taken. After a kill only a part may be done: type the
command again. A release stream goes on with the KEY and the database that are
configured then.
Type it where the checkpoint is: a pod without a volume forgets it, unless the
checkpoint is on the bus (BRIDGE_CHECKPOINT_URL=bus:).
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, key := c.Context(), store.Key{Stream: args[0], Shard: args[1]}
		id, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return usageErrorf("invalid ID %q: use a whole number from 0 to 18446744073709551615", args[2])
		}
		return p.change(ctx, true, key.Stream, func(k *kept) (string, error) {
			kind, err := p.kindOf(ctx, k, key.Stream)
			if err = cmp.Or(p.misnamed(k, key), errors.Join(err, k.isMine(key))); err != nil {
				return "", err
			}
			if one := p.configured(key.Stream); one != nil && one.Order() == source.OrderNone && id > 0 {
				return "", fmt.Errorf("the ids of %q have no order, so no id tells what was published: to publish all rows again use the id 0, "+
					"or bridge republish; to begin again: bridge checkpoint reset %s", key.Stream, key.Stream)
			}
			now := time.Now()
			set := stream.SetPosition{Key: key, Kind: kind, ID: id, Epoch: stream.NextEpoch(&k.image, now), Now: now}
			batch, moved, err := set.Batch(ctx, k)
			if err != nil {
				return "", err
			}
			if err := k.Apply(ctx, batch); err != nil {
				return "", err
			}
			said := fmt.Sprintf("had no checkpoint, is now at id %d", id)
			if k.image.Shards[key].Started {
				said = fmt.Sprintf("id %d is now id %d, %s", moved.From, id, missing(moved))
			}
			return key.Stream + " " + key.Shard + ": " + said, stream.DisputeAbove(ctx, k, key, id, set.Epoch)
		})
	}
	return c
}

func missing(moved stream.PositionSet) string {
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

func checkpointMove(p *process) *cobra.Command {
	c := newCommand("move <stream> <shard> <new-name>", "give the checkpoint of a table to its new name", checkpointDetails+`
For a table of a release stream that has another name now, as with its source
(shop.orders is a/shop.orders): it goes on with its position and its gaps, the
ids that were not seen yet. It has to be the same table. Stop bridge with
SIGTERM before. The former name has no checkpoint then; to go back, move it
back.
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, name, from, to := c.Context(), args[0], args[1], args[2]
		return p.change(ctx, false, name, func(k *kept) (string, error) {
			kind, err := p.kindOf(ctx, k, name)
			if err = cmp.Or(p.misnamed(k, store.Key{Stream: name, Shard: to}), errors.Join(err, k.isMine(store.Key{Stream: name, Shard: from}), k.isMine(store.Key{Stream: name, Shard: to}))); err != nil {
				return "", err
			}
			if kind != event.Release {
				return "", fmt.Errorf("stream %q is not known as a release stream: entities of a capability stream are compared as all rows are read again: bridge checkpoint set %s %s 0", name, name, to)
			}
			now := time.Now()
			batch, position, err := stream.Rename{Stream: name, From: from, To: to, Epoch: stream.NextEpoch(&k.image, now), Now: now}.Batch(ctx, k)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s: goes on as %s behind id %d, with its gaps", name, from, to, position), k.Apply(ctx, batch)
		})
	}
	return c
}

func checkpointReset(p *process) *cobra.Command {
	c := newCommand("reset <stream>", "forget a stream: it begins again where START says", checkpointDetails+`
All shards of the stream lose their checkpoint and begin again where
BRIDGE_STREAM_<NAME>_START says. What the bus has of the stream does not count
any more.
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, name := c.Context(), args[0]
		reset := stream.Reset{Stream: name, Now: time.Now()}
		if one := p.configured(name); one != nil {
			reset.Shards = one.Tables
		}
		return p.change(ctx, false, name, func(k *kept) (string, error) {
			shards, err := k.shardsOf(name)
			switch {
			case len(shards) > 0 || len(reset.Shards) > 0:
			case err != nil:
				return "", err
			default:
				return "", fmt.Errorf("stream %q has no checkpoint of a table yet: set the variables of bridge, so that its tables are known, and type the command again", name)
			}
			removed := 0
			for _, key := range shards {
				if k.image.Shards[key].Started {
					removed++
				}
			}
			if _, err := p.kindOf(ctx, k, name); err != nil {
				return "", err
			}
			reset.Epoch = stream.NextEpoch(&k.image, reset.Now)
			return fmt.Sprintf("%s: removed the checkpoint of %s", name, terminal.Count(removed, "shard")), k.Apply(ctx, reset.Batch(&k.image))
		})
	}
	return c
}

func checkpointRebuild(p *process) *cobra.Command {
	c := newCommand("rebuild <stream>", "have the next start read a stream from the bus again", checkpointDetails+`
What is kept of the stream is dropped, and the next start makes it again from
all that the bus has. Rows that are on the bus are not published again; START
and former set and reset commands hold. A reconcile follows at once.
`)
	c.RunE = func(c *cobra.Command, args []string) error {
		name := args[0]
		if cfg, err := p.load(); err == nil && !cfg.Sink.Readable() {
			return fmt.Errorf("stream %q cannot be rebuilt: events that went to %s: cannot be read back; to publish from START again: bridge checkpoint reset %s", name, cfg.Sink.Scheme, name)
		}
		return p.change(c.Context(), false, name, func(k *kept) (string, error) {
			shards, err := k.shardsOf(name)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s: the next start reads the bus from the beginning for %s", name, terminal.Count(len(shards), "shard")),
				k.Apply(c.Context(), stream.Rebuild(&k.image, name, time.Now()))
		})
	}
	return c
}
