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
	c := newCommand("set <stream> <shard> <id>", "make a shard go on after an id")
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
			if before := k.image.Shards[key]; before.Started {
				said = fmt.Sprintf("id %d is now id %d, %s", before.Position, id, missing(moved))
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
	c := newCommand("move <stream> <shard> <new-name>", "give the checkpoint of a table to its new name")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, name, from, to := c.Context(), args[0], args[1], args[2]
		return p.change(ctx, false, name, func(k *kept) (string, error) {
			kind, err := p.kindOf(ctx, k, name)
			if err = cmp.Or(p.misnamed(k, store.Key{Stream: name, Shard: to}), errors.Join(err, k.isMine(store.Key{Stream: name, Shard: from}), k.isMine(store.Key{Stream: name, Shard: to}))); err != nil {
				return "", err
			}
			one := p.configured(name)
			if kind != event.Release && (one == nil || len(one.Key) == 0) {
				return "", fmt.Errorf("stream %q is known neither as a release stream nor with a KEY: to have all rows of the new name published: bridge checkpoint set %s %s 0", name, name, to)
			}
			now := time.Now()
			position, err := stream.Rename{
				Stream: name, From: from, To: to, Unordered: one != nil && one.Order() == source.OrderNone, Epoch: stream.NextEpoch(&k.image, now), Now: now,
			}.Apply(ctx, k)
			return fmt.Sprintf("%s %s: goes on as %s behind id %d, with its gaps", name, from, to, position), err
		})
	}
	return c
}

func checkpointReset(p *process) *cobra.Command {
	c := newCommand("reset <stream>", "forget a stream: it begins again where START says")
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
	c := newCommand("rebuild <stream>", "have the next start read a stream from the bus again")
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
