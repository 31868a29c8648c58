package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/app"
	"bridge/internal/config"
	"bridge/internal/terminal"
	"bridge/source"
	"bridge/source/ledger"
)

const checkpointDetails = `
These commands work on the file of BRIDGE_CHECKPOINT_URL (file:bridge.db) and
need no other variable. A running bridge holds that file: stop it first. A shard
is a table as BRIDGE_STREAM_<NAME>_TABLE names it, with its range filled in.
`

const checkpointSetDetails = `
Rows up to the id count as published, except for the gaps: ids that were not
seen yet stay missing, and a row that appears there is published. Rows above the
id are published, a second time if need be: what was published of them is
forgotten, in the view of a capability stream, too. With the id 0 all rows are
published. The stream need not be configured. After a kill only a part may be
done: type the command again. A release stream goes on with the KEY and the
database that are configured then.
`

const checkpointResetDetails = `
All shards of the stream lose their checkpoint and begin again where
BRIDGE_STREAM_<NAME>_START says.
`

// withCheckpoint calls do with the store of BRIDGE_CHECKPOINT_URL. Unless create is set, a file
// that is not there is an error.
func (p *process) withCheckpoint(create bool, do func(app.Store) error) (err error) {
	path, err := config.LoadCheckpointPath(p.environ)
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
		return wrongUsage("invalid ID %q: use a whole number from 0 to 18446744073709551615", call.arguments[2])
	}
	if key.Stream == "" || key.Shard == "" {
		return wrongUsage("the names of stream and shard must not be empty")
	}
	return p.withCheckpoint(true, func(s app.Store) error {
		before, err := s.Load(ctx, key)
		isNew := errors.Is(err, checkpoint.ErrNotFound)
		if err != nil && !isNew {
			return err
		}
		if err := checkpoint.DropJournals(ctx, s, key, before, id, nobodyKnows); err != nil {
			return err
		}
		// Before the save: a kill between the two leaves a shard that publishes more than it has
		// to, not less.
		if err := s.Rewind(ctx, key, id); err != nil {
			return err
		}
		l, missing, err := movedLedger(ctx, s, key, before, id)
		if err != nil {
			return err
		}
		if err := s.Save(ctx, key, moved(before, id, l)); err != nil {
			return err
		}
		if isNew {
			_, err = fmt.Fprintf(p.stdout, "%s %s: had no checkpoint, is now at id %d\n", key.Stream, key.Shard, id)
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%s %s: id %d is now id %d, %s\n", key.Stream, key.Shard, before.Position.ID, id, missing)
		return err
	})
}

// nobodyKnows says of an event that was on its way that it cannot be told to have arrived.
func nobodyKnows([16]byte) bool { return false }

// moved returns the state of a shard that a person puts at an id, with the ledger of that id. The
// offsets go: the person who runs this knows that the bus has lost messages.
func moved(before checkpoint.State, id uint64, l []ledger.Chunk) checkpoint.State {
	state := checkpoint.State{
		Position: ledger.Position{ID: id},
		Ledger:   l, ReplaceLedger: true, ReplacePublished: true,
		Saved: time.Now().Truncate(time.Millisecond),
	}
	// Rows that are passed by count as published: a capability shard takes them into its view as
	// they stand.
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
	if before.Meaning != nil && before.Meaning.Kind == string(event.Release) {
		// There is no view: the id means the same whatever KEY and table are from now on.
		state.Meaning = &checkpoint.Meaning{Kind: before.Meaning.Kind, ID: before.Meaning.ID}
	}
	return state
}

// movedLedger returns all parts of the ledger of a shard that a person puts at an id: what is
// missing up to there stays missing. A ledger that cannot be read is dropped, which said says.
func movedLedger(ctx context.Context, s app.Store, key checkpoint.Key, before checkpoint.State, id uint64) (parts []ledger.Chunk, said string, err error) {
	if len(before.Ledger) == 0 {
		return nil, "no gaps", nil
	}
	l, err := ledger.RestoreParts(ledger.Options{MaxBytes: math.MaxInt}, before.Position.ID, before.Ledger[0].Bytes,
		checkpoint.LedgerParts(ctx, s, key))
	if errors.Is(err, ledger.ErrDamaged) {
		return nil, fmt.Sprintf("its gaps are dropped: %v", err), nil
	}
	if err != nil {
		return nil, "", err
	}
	l.MoveTo(id)
	ids := uint64(0)
	l.Unpublished(func(r source.Range) bool { ids += r.Last - r.First + 1; return true })
	if ids == 1 {
		return l.All(), "1 id up to there stays missing", nil
	}
	return l.All(), fmt.Sprintf("%d ids up to there stay missing", ids), nil
}

func checkpointReset(p *process, ctx context.Context, call call) error {
	stream := call.arguments[0]
	return p.withCheckpoint(false, func(s app.Store) error {
		entries, err := s.List(ctx)
		if err != nil {
			return err
		}
		if known := checkpoint.StreamsOf(entries); !slices.Contains(known, stream) {
			return unknownStream(stream, known)
		}
		removed, err := s.Delete(ctx, stream)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%s: removed the checkpoint of %s\n", stream, terminal.Count(removed, "shard"))
		return err
	})
}

func unknownStream(stream string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("stream %q has no checkpoint, nor has any other", stream)
	}
	return fmt.Errorf("stream %q has no checkpoint: those that have one are %s", stream, strings.Join(known, ", "))
}
