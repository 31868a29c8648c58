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
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/event"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
)

const checkpointDetails = `
These commands work on the folder of BRIDGE_CHECKPOINT_URL (file:bridge.db) and
need no other variable. A running bridge holds that folder: stop it first. A
shard is a table as BRIDGE_STREAM_<NAME>_TABLE names it, with its range filled
in. With bus: they need all variables of bridge, and change the progress on the
bus, too: stop all processes, wherever they run.
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
	// onBus is the configuration of the share where progress is kept on the bus, else nil.
	onBus *config.Config
}

// isMine returns an error where a table of a stream is in another share than that of the command.
func (k *kept) isMine(key store.Key) error {
	if k.onBus == nil {
		return nil
	}
	s := k.onBus.Stream(key.Stream)
	if k.onBus.Share.Owns(s, key.Shard) {
		return nil
	}
	number := k.onBus.Share.Number
	return fmt.Errorf("%s of stream %s is in share %d/%d, and BRIDGE_SHARE is %s: type the command where that share is", key.Shard, key.Stream,
		share.Of(number, s.Name, s.Placed(key.Shard)), number, k.onBus.Share)
}

// checkpoint returns the folder of the checkpoint, and the configuration where progress is kept on
// the bus, else nil.
func (e *environment) checkpoint() (path string, onBus *config.Config, err error) {
	environ, err := e.variables()
	if err != nil {
		return "", nil, err
	}
	path, err = config.LoadCheckpointPath(environ)
	if !errors.Is(err, config.ErrOnBus) {
		return path, nil, err
	}
	if onBus, err = config.Load(environ, e.secrets); err != nil {
		return "", nil, err
	}
	return onBus.CheckpointPath, onBus, nil
}

// change calls do with the store of BRIDGE_CHECKPOINT_URL, which changes it about one stream, and
// prints what do says once that is durable, also on the bus, and all is closed. Unless create is
// set, a store that is not there is an error.
func (p *process) change(ctx context.Context, create bool, stream string, do func(*kept) (said string, err error)) error {
	path, onBus, err := p.checkpoint()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create && onBus == nil {
		return noCheckpoint(path)
	}
	if onBus != nil {
		if err := app.MakeFolder(onBus); err != nil {
			return err
		}
	}
	said, err := changeAt(ctx, p.newLogger(slog.LevelWarn, "console"), path, onBus, stream, do)
	if err != nil {
		return err
	}
	return p.print(said + "\n")
}

// changeAt calls do with the store at path, and returns what it says.
func changeAt(ctx context.Context, log *slog.Logger, path string, onBus *config.Config, stream string, do func(*kept) (string, error)) (said string, err error) {
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		return "", unopened(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k := &kept{Store: s, path: path}
	if onBus != nil {
		if onBus.Stream(stream) == nil {
			return "", fmt.Errorf("stream %q is not configured: with bus: these commands need the variables of bridge", stream)
		}
		if k.onBus = config.OfShare(onBus); k.onBus.Stream(stream) == nil {
			return "", fmt.Errorf("stream %q has no tables in share %s: type the command where another share is", stream, onBus.Share)
		}
		if k.copies, err = app.OpenCopies(ctx, onBus, s, log); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, k.copies.Close()) }()
	}
	if k.image, err = s.Load(ctx); err != nil {
		return "", err
	}
	said, err = do(k)
	if err == nil {
		err = s.Sync(ctx)
	}
	if err == nil && k.copies != nil {
		err = k.copies.Write(ctx, stream)
	}
	return said, err
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

// kindOf returns the kind of a stream by the store, else by the configuration; empty where neither
// knows it. It is an error where a command has to change the view of the stream, and the folder
// does not have it: a copy on the bus has none.
func (p *process) kindOf(ctx context.Context, k *kept, stream string) (kind event.Kind, err error) {
	if one := p.configured(stream); one != nil {
		kind = one.Kind
	}
	for key := range k.image.Shards {
		if key.Stream != stream {
			continue
		}
		m, err := store.LoadMeaning(ctx, k, key)
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return "", err
		}
		if m != nil {
			kind = event.Kind(m.Kind)
			break
		}
	}
	if k.copies == nil || kind == event.Release || slices.ContainsFunc(k.image.Registrations, func(r store.Registration) bool { return r.Stream == stream }) {
		return kind, nil
	}
	return "", fmt.Errorf("what was published last of each entity of the capability stream %q is not in the folder %s: run bridge once on a folder that stays, "+
		"with BRIDGE_CHECKPOINT_URL=bus:///<folder>, until it has caught up; stop it, type the command with that folder, and start bridge on it once more", stream, k.path)
}

// configured returns a stream of the configuration. It is nil where the environment has no such
// stream, or not all that bridge needs: these commands work without it.
func (e *environment) configured(stream string) *config.Stream {
	cfg, err := e.load()
	if err != nil {
		return nil
	}
	return config.OfShare(cfg).Stream(stream)
}

// shardsOf returns the shards that the store has of a stream; it may know the stream and none of
// them. It is an error where it does not know the stream.
func (k *kept) shardsOf(name string) ([]store.Key, error) {
	known := make(map[string][]store.Key)
	for _, r := range k.image.Registrations {
		known[r.Stream] = nil
	}
	for key := range k.image.Shards {
		if !stream.IsCommand(key.Shard) {
			known[key.Stream] = append(known[key.Stream], key)
		}
	}
	shards, found := known[name]
	switch {
	case found:
		return shards, nil
	case len(known) == 0:
		return nil, fmt.Errorf("stream %q has no checkpoint, nor has any other: a stream begins at its START, behind what the bus has of it", name)
	}
	return nil, fmt.Errorf("stream %q has no checkpoint: those that have one are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
