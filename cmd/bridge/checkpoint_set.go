package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/cli"
	"bridge/internal/progress"
)

const checkpointSetDetails = `
Rows up to the id count as published, except for the gaps: ids that were not
seen yet stay missing, and a row that appears there is published. Rows above the
id are published, a second time if need be: what the bus has of them does not
count any more. With the id 0 all rows are published. The stream need not be
configured. After a kill only a part may be done: type the command again. A
release stream goes on with the KEY and the database that are configured then.
Type it where the checkpoint is: a pod without a volume forgets it, unless the
checkpoint is on the bus (BRIDGE_CHECKPOINT_URL=bus:).
`

func checkpointSet(p *process, ctx context.Context, call cli.Call) error {
	key := store.Key{Stream: call.Arguments[0], Shard: call.Arguments[1]}
	id, err := strconv.ParseUint(call.Arguments[2], 10, 64)
	if err != nil {
		return cli.Errorf("invalid ID %q: use a whole number from 0 to 18446744073709551615", call.Arguments[2])
	}
	if key.Stream == "" || key.Shard == "" {
		return cli.Errorf("the names of stream and shard must not be empty")
	}
	var said string
	err = p.withStore(ctx, true, key.Stream, func(s *kept) error {
		image := &s.image
		kind, err := p.kindOf(ctx, s, image, key.Stream)
		if err == nil {
			err = s.mustHaveView(key.Stream, kind)
		}
		if err != nil {
			return err
		}
		now := time.Now()
		set := progress.Set{Key: key, Kind: kind, ID: id, Epoch: progress.NextEpoch(image, now), Now: now}
		batch, moved, err := set.Batch(ctx, s)
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, batch); err != nil {
			return err
		}
		if said = fmt.Sprintf("had no checkpoint, is now at id %d", id); image.Shards[key].Started {
			said = fmt.Sprintf("id %d is now id %d, %s", moved.From, id, missing(moved))
		}
		return progress.Dispute(ctx, s, key, id, set.Epoch)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s: %s\n", key.Stream, key.Shard, said)
	return err
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
