package main

import (
	"context"
	"fmt"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/progress"
	"bridge/internal/terminal"
)

const checkpointRebuildDetails = `
What is kept of the stream is dropped, and the next start makes it again from
all that the bus has. Rows that are on the bus are not published again; START
and former set and reset commands hold. A reconcile follows at once.
`

func checkpointRebuild(p *process, ctx context.Context, call cli.Call) error {
	stream := call.Arguments[0]
	if cfg, err := config.Load(p.environ, p.secrets); err == nil && cfg.Sink.Scheme == "stdout" {
		return fmt.Errorf("stream %q cannot be rebuilt: events that went to stdout: cannot be read back; to publish from START again: bridge checkpoint reset %s", stream, stream)
	}
	var shards []store.Key
	err := p.withStore(ctx, false, stream, func(s *kept) error {
		image := &s.image
		known := streamsOf(image)
		var found bool
		if shards, found = known[stream]; !found {
			return unknownStream(stream, known)
		}
		return s.Apply(ctx, progress.Rebuild(image, stream, time.Now()))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s: the next start reads the bus from the beginning for %s\n", stream, terminal.Count(len(shards), "shard"))
	return err
}
