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
	"bridge/internal/app"
	"bridge/internal/cli"
	"bridge/internal/config"
	"bridge/internal/progress"
	"bridge/internal/terminal"
)

const checkpointDetails = `
These commands work on the folder of BRIDGE_CHECKPOINT_URL (file:bridge.db) and
need no other variable. A running bridge holds that folder: stop it first. A
shard is a table as BRIDGE_STREAM_<NAME>_TABLE names it, with its range filled
in. With bus: they need all variables of bridge, and change the progress on the
bus, too: stop all processes, wherever they run.
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

// kept is what the commands work on: a store, and the copies on the bus where progress is kept
// there.
type kept struct {
	*pebble.Store
	image  store.Image
	path   string
	copies *app.Copies
}

// checkpoint returns the folder of the checkpoint, and the configuration where progress is kept on
// the bus, else nil.
func (p *process) checkpoint() (path string, onBus *config.Config, err error) {
	path, err = config.LoadCheckpointPath(p.environ)
	if !errors.Is(err, config.ErrOnBus) {
		return path, nil, err
	}
	if onBus, err = config.Load(p.environ, p.secrets); err != nil {
		return "", nil, err
	}
	return onBus.CheckpointPath, onBus, nil
}

// withStore calls do with the store of BRIDGE_CHECKPOINT_URL, which changes it about one stream.
// Unless create is set, one that is not there is an error. What do has changed is durable when
// withStore returns nil, also on the bus.
func (p *process) withStore(ctx context.Context, create bool, stream string, do func(*kept) error) (err error) {
	path, onBus, err := p.checkpoint()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create && onBus == nil {
		return noCheckpoint(path)
	}
	log := newLogger(p.stderr, slog.LevelWarn, "text", p.secrets)
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		return unopened(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k := &kept{Store: s, path: path}
	if onBus != nil {
		if onBus.Stream(stream) == nil {
			return fmt.Errorf("stream %q is not configured: with bus: these commands need the variables of bridge", stream)
		}
		if k.copies, err = app.OpenCopies(ctx, onBus, s, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.copies.Close()) }()
	}
	if k.image, err = s.Load(ctx); err != nil {
		return err
	}
	if err := do(k); err != nil {
		return err
	}
	if err := s.Sync(ctx); err != nil || k.copies == nil {
		return err
	}
	return k.copies.Write(ctx, stream)
}

// mustHaveView returns an error for a stream whose view a command has to change, where the folder
// does not have it: a copy on the bus has none.
func (k *kept) mustHaveView(stream string, kind event.Kind) error {
	if k.copies == nil || kind == event.Release || slices.ContainsFunc(k.image.Registrations, func(r store.Registration) bool { return r.Stream == stream }) {
		return nil
	}
	return fmt.Errorf("what was published last of each entity of the capability stream %q is not in the folder %s: run bridge once on a folder that stays, "+
		"with BRIDGE_CHECKPOINT_URL=bus:///<folder>, until it has caught up; stop it, type the command with that folder, and start bridge on it once more", stream, k.path)
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
