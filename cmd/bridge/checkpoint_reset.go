package main

import (
	"context"
	"fmt"
	"time"

	"bridge/internal/cli"
	"bridge/internal/progress"
	"bridge/internal/terminal"
)

const checkpointResetDetails = `
All shards of the stream lose their checkpoint and begin again where
BRIDGE_STREAM_<NAME>_START says. What the bus has of the stream does not count
any more.
`

func checkpointReset(p *process, ctx context.Context, call cli.Call) error {
	stream := call.Arguments[0]
	reset := progress.Reset{Stream: stream, Now: time.Now()}
	if one := p.configured(stream); one != nil {
		reset.Shards = one.Tables
	}
	removed := 0
	err := p.withStore(ctx, false, stream, func(s *kept) error {
		image := &s.image
		known := streamsOf(image)
		shards := known[stream]
		if len(shards) == 0 && len(reset.Shards) == 0 {
			if _, registered := known[stream]; registered {
				return fmt.Errorf("stream %q has no checkpoint of a table yet: set the variables of bridge, so that its tables are known, and type the command again", stream)
			}
			return unknownStream(stream, known)
		}
		for _, key := range shards {
			if image.Shards[key].Started {
				removed++
			}
		}
		kind, err := p.kindOf(ctx, s, image, stream)
		if err == nil {
			err = s.mustHaveView(stream, kind)
		}
		if err != nil {
			return err
		}
		reset.Epoch = progress.NextEpoch(image, reset.Now)
		return s.Apply(ctx, reset.Batch(image))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s: removed the checkpoint of %s\n", stream, terminal.Count(removed, "shard"))
	return err
}
