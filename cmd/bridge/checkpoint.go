package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/pebble"
	"bridge/event"
	"bridge/internal/config"
	"bridge/internal/progress"
	"bridge/internal/terminal"
)

const checkpointDetails = `
These commands work on the folder of BRIDGE_CHECKPOINT_URL (file:bridge.db) and
need no other variable. A running bridge holds that folder: stop it first. A
shard is a table as BRIDGE_STREAM_<NAME>_TABLE names it, with its range filled
in.
`

const checkpointSetDetails = `
Rows up to the id count as published, except for the gaps: ids that were not
seen yet stay missing, and a row that appears there is published. Rows above the
id are published, a second time if need be: what the bus has of them does not
count any more. With the id 0 all rows are published. The stream need not be
configured. After a kill only a part may be done: type the command again. A
release stream goes on with the KEY and the database that are configured then.
`

const checkpointResetDetails = `
All shards of the stream lose their checkpoint and begin again where
BRIDGE_STREAM_<NAME>_START says. What the bus has of the stream does not count
any more.
`

const checkpointRebuildDetails = `
What is kept of the stream is dropped, and the next start makes it again from
all that the bus has. Rows that are on the bus are not published again; START
and former set and reset commands hold. A reconcile follows at once.
`

// lockWait is how long a command waits for another one.
const lockWait = time.Second

// checkpointPath returns the folder of BRIDGE_CHECKPOINT_URL.
func (p *process) checkpointPath() (string, error) {
	return config.LoadCheckpointPath(p.environ)
}

// withStore calls do with the store of BRIDGE_CHECKPOINT_URL. Unless create is set, one that is not
// there is an error. What do has changed is durable when withStore returns nil.
func (p *process) withStore(ctx context.Context, create bool, do func(*pebble.Store, *store.Image) error) (err error) {
	path, err := p.checkpointPath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create {
		return noCheckpoint(path)
	}
	log := newLogger(p.stderr, slog.LevelWarn, "text", p.secrets)
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		return unopened(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	image, err := s.Load(ctx)
	if err != nil {
		return err
	}
	if err := do(s, &image); err != nil {
		return err
	}
	return s.Sync(ctx)
}

func noCheckpoint(path string) error {
	return fmt.Errorf("there is no checkpoint at %s: bridge has saved nothing there yet; see to BRIDGE_CHECKPOINT_URL, which is file:bridge.db when not set", path)
}

// unopened says what to do about a store that another process holds.
func unopened(err error) error {
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w (where that is bridge: stop bridge first; while it runs, /api/v1/status shows its positions)", err)
	}
	return err
}

func checkpointSet(p *process, ctx context.Context, call call) error {
	key := store.Key{Stream: call.arguments[0], Shard: call.arguments[1]}
	id, err := strconv.ParseUint(call.arguments[2], 10, 64)
	if err != nil {
		return wrongUsage("invalid ID %q: use a whole number from 0 to 18446744073709551615", call.arguments[2])
	}
	if key.Stream == "" || key.Shard == "" {
		return wrongUsage("the names of stream and shard must not be empty")
	}
	var said string
	err = p.withStore(ctx, true, func(s *pebble.Store, image *store.Image) error {
		kind, err := p.kindOf(ctx, s, image, key.Stream)
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

// kindOf returns the kind of a stream by the store, else by the configuration; empty where neither
// knows it.
func (p *process) kindOf(ctx context.Context, s store.Store, image *store.Image, stream string) (event.Kind, error) {
	for key := range image.Shards {
		if key.Stream != stream {
			continue
		}
		m, err := store.LoadMeaning(ctx, s, key)
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return "", err
		}
		if m != nil {
			return event.Kind(m.Kind), nil
		}
	}
	if one := p.configured(stream); one != nil {
		return one.Kind, nil
	}
	return "", nil
}

// configured returns a stream of the configuration. It is nil where the environment has no such
// stream, or not all that bridge needs: these commands work without it.
func (p *process) configured(stream string) *config.Stream {
	cfg, err := config.Load(p.environ, p.secrets)
	if err != nil {
		return nil
	}
	return cfg.Stream(stream)
}

func checkpointReset(p *process, ctx context.Context, call call) error {
	stream := call.arguments[0]
	reset := progress.Reset{Stream: stream, Now: time.Now()}
	if one := p.configured(stream); one != nil {
		reset.Shards = one.Tables
	}
	removed := 0
	err := p.withStore(ctx, false, func(s *pebble.Store, image *store.Image) error {
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
		reset.Epoch = progress.NextEpoch(image, reset.Now)
		return s.Apply(ctx, reset.Batch(image))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s: removed the checkpoint of %s\n", stream, terminal.Count(removed, "shard"))
	return err
}

func checkpointRebuild(p *process, ctx context.Context, call call) error {
	stream := call.arguments[0]
	if cfg, err := config.Load(p.environ, p.secrets); err == nil && cfg.Sink.Scheme == "stdout" {
		return fmt.Errorf("stream %q cannot be rebuilt: events that went to stdout: cannot be read back; to publish from START again: bridge checkpoint reset %s", stream, stream)
	}
	var shards []store.Key
	err := p.withStore(ctx, false, func(s *pebble.Store, image *store.Image) error {
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

// streamsOf returns the streams that a store holds anything of, with their shards.
func streamsOf(image *store.Image) map[string][]store.Key {
	streams := make(map[string][]store.Key)
	for _, r := range image.Registrations {
		streams[r.Stream] = nil
	}
	for key := range image.Shards {
		streams[key.Stream] = append(streams[key.Stream], key)
	}
	return streams
}

func unknownStream(stream string, known map[string][]store.Key) error {
	if len(known) == 0 {
		return fmt.Errorf("stream %q has no checkpoint, nor has any other: a stream begins at its START, behind what the bus has of it", stream)
	}
	return fmt.Errorf("stream %q has no checkpoint: those that have one are %s", stream, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
