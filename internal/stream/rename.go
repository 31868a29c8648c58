package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/source"
)

// Move is the command that gives the progress of a shard of a release stream to the same table
// under another name. Sync what its Batch returns before the command returns.
type Rename struct {
	Stream, From, To string
	// Epoch is a new one, above that of the store: messages of older epochs do not count any more
	// (rule 28).
	Epoch uint64
	// Now is the host's time.
	Now time.Time
}

// movedParts are of the table and its ids, whatever the name: gaps, ids that are ahead, the rows
// published last and the schema of their events.
var movedParts = []store.Kind{store.Gaps, store.Ahead, store.Published, store.SchemaPart}

// allParts are those that a shard may have.
var shardParts = []store.Kind{
	store.Gaps, store.Ahead, store.Published, store.Reconcile, store.AbsentEntities, store.MeaningPart, store.SchemaPart, store.LateEntities,
}

// Batch returns what changes in the store, and the position. The former shard is as one that never
// began, so that the progress can be moved back.
func (c Rename) Batch(ctx context.Context, s store.Store) (*store.Batch, uint64, error) {
	from, to := store.Key{Stream: c.Stream, Shard: c.From}, store.Key{Stream: c.Stream, Shard: c.To}
	before, _, err := s.Progress(ctx, from)
	if err != nil {
		return nil, 0, err
	}
	there, _, err := s.Progress(ctx, to)
	switch {
	case err != nil:
		return nil, 0, err
	case !before.Started:
		return nil, 0, fmt.Errorf("%s %s has no checkpoint: bridge checkpoint show lists those that have one", c.Stream, c.From)
	case there.Started:
		return nil, 0, fmt.Errorf("%s %s has a checkpoint of its own, at id %d: it would be lost, with the gaps of its table", c.Stream, c.To, there.Position)
	}
	after := before
	after.Since, after.Saved, after.Snapshot = c.Epoch, c.Now, source.Range{}
	change := store.ShardChange{Key: to, Progress: &after, Clear: shardParts}
	headed := false
	for _, kind := range movedParts {
		for part, err := range s.Parts(ctx, from, kind, 0) {
			if err != nil {
				return nil, 0, err
			}
			if kind == store.Ahead && part.Number == 0 {
				headed, part.Bytes = true, head{epoch: c.Epoch}.appendTo(nil)
			}
			change.Parts = append(change.Parts, store.Part{Kind: kind, Number: part.Number, Bytes: part.Bytes})
		}
	}
	if !headed {
		return nil, 0, fmt.Errorf("%s %s is still to be read from the bus: run bridge until the stream has caught up, stop it, and type the command again", c.Stream, c.From)
	}
	m, err := store.LoadMeaning(ctx, s, from)
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return nil, 0, err
	}
	if m != nil {
		meaning := store.Meaning{Kind: m.Kind, ID: m.ID, Key: m.Key}
		change.Parts = append(change.Parts, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &meaning)})
	}
	former := store.ShardChange{Key: from, Progress: &store.Progress{Since: c.Epoch, Saved: c.Now}, Clear: shardParts}
	b := &store.Batch{Epoch: c.Epoch, Shards: []store.ShardChange{former, change}}
	pause, found, err := s.Progress(ctx, pauseKey(c.Stream, c.From))
	if found {
		b.Shards = append(b.Shards, store.ShardChange{Key: pauseKey(c.Stream, c.To), Progress: &pause})
	}
	return b, before.Position, err
}
