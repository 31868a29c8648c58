package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"bridge/checkpoint"
	"bridge/source"
)

const checkpointDetails = `
These commands work on the file of BRIDGE_CHECKPOINT_URL (file:bridge.db) and need no other variable. A bridge that runs
holds that file: stop it first. A shard is a table as BRIDGE_STREAM_<NAME>_TABLE names it, its range filled in.
`

const checkpointSetDetails = `
Rows up to the id count as published, rows above it are published, again if need be: what was published of them is forgotten, in the
view of a capability stream, too. The id is 0 to publish all of them. The stream need not be configured. A kill may leave
a part of it done: type it again.
`

const checkpointResetDetails = `
All shards of the stream lose their checkpoint and begin again where BRIDGE_STREAM_<NAME>_START says.
`

// store is a checkpoint store that can be closed. Its errors say what failed and name the file or the shard.
type store interface {
	checkpoint.Store
	Close() error
}

// withCheckpoint calls do with the store of BRIDGE_CHECKPOINT_URL. Unless create is set, a file that is not there is an error.
func (p *process) withCheckpoint(create bool, do func(store) error) (err error) {
	path, err := loadCheckpointPath(p.environ)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create {
		return fmt.Errorf("there is no checkpoint at %s: bridge has saved nothing there yet; see to BRIDGE_CHECKPOINT_URL, which is file:bridge.db when not set", path)
	}
	s, err := p.openStore(path)
	if errors.Is(err, checkpoint.ErrLocked) {
		return fmt.Errorf("%w (where that is bridge: stop bridge first; while it runs, /api/v1/status shows its positions)", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func checkpointSet(p *process, ctx context.Context, call call) error {
	key := checkpoint.Key{Stream: call.arguments[0], Shard: call.arguments[1]}
	id, err := strconv.ParseUint(call.arguments[2], 10, 64)
	if err != nil {
		return wrongUsage("%q is no id: write a whole number from 0 to 18446744073709551615", call.arguments[2])
	}
	if key.Stream == "" || key.Shard == "" {
		return wrongUsage("the names of stream and shard must not be empty")
	}
	return p.withCheckpoint(true, func(s store) error {
		before, err := s.Load(ctx, key)
		isNew := errors.Is(err, checkpoint.ErrNotFound)
		if err != nil && !isNew {
			return err
		}
		if err := checkpoint.DropJournals(ctx, s, key, before, id, nobodyKnows); err != nil {
			return err
		}
		// Before the save: a kill between the two leaves a shard that publishes more than it has to, not less.
		if err := s.Rewind(ctx, key, id); err != nil {
			return err
		}
		if err := s.Save(ctx, key, moved(before, id)); err != nil {
			return err
		}
		if isNew {
			_, err = fmt.Fprintf(p.stdout, "%s %s: had no checkpoint, is now at id %d\n", key.Stream, key.Shard, id)
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%s %s: id %d is now id %d, %s dropped\n", key.Stream, key.Shard, before.Position.ID, id,
			count(len(before.Position.Gaps), "gap"))
		return err
	})
}

// nobodyKnows says of an event that was on its way that it cannot be told to have arrived.
func nobodyKnows([16]byte) bool { return false }

// moved returns the state of a shard that a person puts at an id. The gaps belonged to the former position. The marks go, too: who
// resolves a bus that has lost messages knows that it has.
func moved(before checkpoint.State, id uint64) checkpoint.State {
	state := checkpoint.State{
		Position:   source.Position{ID: id},
		LedgerAnew: true,
		Saved:      time.Now().Truncate(time.Millisecond),
	}
	// Rows that are passed by count as published: a capability shard takes them into its view as they stand.
	passed := before.Snapshot
	if id > before.Position.ID {
		passed.Last = id
		if passed.First == 0 {
			passed.First = before.Position.ID + 1
		}
	}
	if passed.Last = min(passed.Last, id); passed.First <= passed.Last && passed.First > 0 {
		state.Snapshot = passed
	}
	return state
}

func checkpointReset(p *process, ctx context.Context, call call) error {
	stream := call.arguments[0]
	return p.withCheckpoint(false, func(s store) error {
		entries, err := s.List(ctx)
		if err != nil {
			return err
		}
		if known := streamsOf(entries); !slices.Contains(known, stream) {
			return unknownStream(stream, known)
		}
		removed, err := s.Delete(ctx, stream)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%s: removed the checkpoint of %s\n", stream, count(removed, "shard"))
		return err
	})
}

// streamsOf returns the streams of entries, each once, in their order.
func streamsOf(entries []checkpoint.Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Key.Stream)
	}
	return slices.Compact(names)
}

func unknownStream(stream string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("stream %q has no checkpoint, nor has any other", stream)
	}
	return fmt.Errorf("stream %q has no checkpoint: those that have one are %s", stream, strings.Join(known, ", "))
}
