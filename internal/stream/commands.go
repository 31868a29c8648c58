package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// SetPosition is the command that puts a shard at an id (rule 28). Sync what its Batch returns
// before the command returns.
type SetPosition struct {
	Key store.Key
	// Kind is the kind of the stream, empty where neither the store nor the caller knows it: then a
	// higher id does what it does for either kind.
	Kind event.Kind
	// ID is the id behind which rows are published, again if need be.
	ID uint64
	// Epoch is a new one, above that of the store: messages of older epochs do not count any more.
	Epoch uint64
	// Now is the host's time.
	Now time.Time
}

// PositionSet says what a SetPosition has done.
type PositionSet struct {
	// Missing is how many ids at or below the new position stay missing. Damaged is why they could
	// not be read, in which case none does.
	Missing uint64
	Damaged error
}

// Batch returns what changes in the store. Missing ids up to the id stay missing, and what is ahead
// is forgotten: what was published above the id does not count. A lower id lowers the floor, too. A
// higher one is the floor of a release shard; a capability shard records the rows that it passes.
// For a lower id Dispute is called as well, after the batch.
func (c SetPosition) Batch(ctx context.Context, s store.Store) (*store.Batch, PositionSet, error) {
	var moved PositionSet
	before, _, err := s.Progress(ctx, c.Key)
	if err != nil {
		return nil, moved, err
	}
	after := store.Progress{
		Position: c.ID, Started: true, Floor: min(before.Floor, c.ID), Since: c.Epoch, Saved: c.Now,
		Snapshot: passed(before, c.ID), ReconcileDue: before.ReconcileDue,
	}
	if c.Kind != event.Capability && c.ID > before.Position {
		after.Floor = c.ID
	}
	if c.Kind == event.Release {
		after.Snapshot = source.Range{}
	}
	change := store.ShardChange{
		Key: c.Key, Progress: &after,
		Clear: []store.Kind{store.Gaps, store.Ahead, store.Published, store.Reconcile, store.AbsentEntities, store.Noted},
		Parts: []store.Part{{Kind: store.Ahead, Bytes: head{epoch: c.Epoch}.appendTo(nil)}},
	}
	if err := c.loosen(ctx, s, &change); err != nil {
		return nil, PositionSet{}, err
	}
	l, err := openLedger(s.Parts(ctx, c.Key, store.Gaps, 0), before.Position, ledger.Options{MaxBytes: math.MaxInt})
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		moved.Damaged = err
	case err != nil:
		return nil, PositionSet{}, err
	default:
		// Damaged notes are left out: their rows are published again.
		_, err := eachNoted(ctx, s, c.Key, func(row uint64, _ sink.Origin, state *sink.State) {
			if state.Epoch >= before.Since && l.Missing(row) {
				l.Fill(row, c.Now)
			}
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, PositionSet{}, err
		}
		l.MoveTo(c.ID)
		l.Unpublished(func(r source.Range) bool { moved.Missing += r.Last - r.First + 1; return true })
		for _, chunk := range l.Changed() {
			change.Parts = append(change.Parts, store.Part{Kind: store.Gaps, Number: chunk.Key, Bytes: chunk.Bytes})
		}
	}
	return &store.Batch{Epoch: c.Epoch, Shards: []store.ShardChange{change}}, moved, nil
}

// loosen has the id of a release shard mean the same whatever KEY and table are from now on: it has
// no view.
func (c SetPosition) loosen(ctx context.Context, s store.Store, change *store.ShardChange) error {
	m, err := store.LoadMeaning(ctx, s, c.Key)
	switch {
	case errors.Is(err, store.ErrDamaged):
		change.Clear = append(change.Clear, store.MeaningPart)
	case err != nil:
		return err
	case m != nil && m.Kind == string(event.Release):
		change.Parts = append(change.Parts, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &store.Meaning{Kind: m.Kind, ID: m.ID})})
	}
	return nil
}

// passed returns the ids that a capability shard has to record once it is put at id: those that it
// had to record before, and those that it passes.
func passed(before store.Progress, id uint64) source.Range {
	r := before.Snapshot
	if id > before.Position {
		r.Last = id
		if r.First == 0 {
			r.First = before.Position + 1
		}
	}
	if r.Last = min(r.Last, id); r.First == 0 || r.Empty() {
		return source.Range{}
	}
	return r
}

// DisputeAbove has entities with rows above an id be published again: their next decision
// publishes whatever the digest says, linked to the last event. No message of an epoch below this
// one ends that, so what the next start reads of them again does not. A kill leaves a part of it
// undone.
func DisputeAbove(ctx context.Context, s store.Store, key store.Key, above, epoch uint64) error {
	return eachAbove(ctx, s, key, above, func(e *store.Entry) {
		// Of a row that was deleted when it was seen first there was no message.
		if e.State != store.Tombstone || e.Event != [16]byte{} {
			e.Disputed, e.Epoch, e.Seq = true, epoch, 0
		}
	})
}

// eachAbove applies what change makes of the entries of a shard with rows above an id, a part in a
// batch.
func eachAbove(ctx context.Context, s store.Store, key store.Key, above uint64, change func(*store.Entry)) error {
	for {
		changes, err := s.ByRow(ctx, key, above, 1000, nil)
		if err != nil {
			return fmt.Errorf("read the view of %s above %d: %w", key.Shard, above, err)
		}
		if len(changes) == 0 {
			return nil
		}
		above = changes[len(changes)-1].Entry.Row
		for i := range changes {
			change(&changes[i].Entry)
		}
		view := store.ViewChange{Stream: key.Stream, Changes: changes}
		if err := s.Apply(ctx, &store.Batch{Views: []store.ViewChange{view}}); err != nil {
			return fmt.Errorf("change the view of %s up to %d: %w", key.Shard, above, err)
		}
	}
}

// Reset is the command by which a stream begins again where START says. What its topic-partitions
// hold stays read, so it does not come back into the view either.
type Reset struct {
	Stream string
	// Shards are shards that the store may not know yet, as the configuration names them.
	Shards []string
	// Epoch is a new one, above that of the store: messages of older epochs do not count any more
	// (rule 28).
	Epoch uint64
	// Now is the host's time.
	Now time.Time
}

// Batch returns what changes in a store that holds image.
func (c Reset) Batch(image *store.Image) *store.Batch {
	b := &store.Batch{Forget: []string{c.Stream}, Epoch: c.Epoch}
	for _, r := range image.Registrations {
		if r.Stream == c.Stream {
			b.Registrations = append(b.Registrations, r)
		}
	}
	keys := make(map[store.Key]bool)
	for key, before := range image.Shards {
		if key.Stream == c.Stream && IsPause(key.Shard) {
			b.Shards = append(b.Shards, store.ShardChange{Key: key, Progress: &before})
		}
		// What patterns have matched is forgotten: START decides about all tables again.
		keys[key] = key.Stream == c.Stream && !strings.ContainsAny(key.Shard, "*?\x02")
	}
	for _, shard := range c.Shards {
		keys[store.Key{Stream: c.Stream, Shard: shard}] = true
	}
	for key, mine := range keys {
		if mine {
			b.Shards = append(b.Shards, store.ShardChange{Key: key, Progress: &store.Progress{Since: c.Epoch, Saved: c.Now}})
		}
	}
	return b
}

// Rebuild is the command that has the next start read a stream from the beginning of its
// topic-partitions. Kept is what only commands and START have decided.
func Rebuild(image *store.Image, stream string, now time.Time) *store.Batch {
	b := &store.Batch{Forget: []string{stream}}
	for key, before := range image.Shards {
		if key.Stream == stream {
			kept := store.Progress{Started: before.Started, Floor: before.Floor, Since: before.Since, Saved: now, ReconcileDue: true}
			b.Shards = append(b.Shards, store.ShardChange{Key: key, Progress: &kept})
		}
	}
	return b
}

// NextEpoch returns an epoch for a command on a store that holds image.
func NextEpoch(image *store.Image, now time.Time) uint64 {
	above := image.Epoch
	for _, r := range image.Registrations {
		above = max(above, r.Epoch)
	}
	return NewEpoch(above, now).Number()
}

// IgnoreBelow returns the epoch of a stream with these shards below which catch-up passes over
// messages with another hash, and over those without a state where it is not 0 (rule 12): all
// shards were set or reset since.
func IgnoreBelow(image *store.Image, stream string, shards []string) uint64 {
	if len(shards) == 0 {
		return 0
	}
	epoch := uint64(math.MaxUint64)
	for _, shard := range shards {
		epoch = min(epoch, image.Shards[store.Key{Stream: stream, Shard: shard}].Since)
	}
	return epoch
}

// Gaps returns the gaps of a shard that are polled, ascending.
func LoadGaps(ctx context.Context, s store.Store, key store.Key, position uint64) ([]ledger.Gap, error) {
	l, err := openLedger(s.Parts(ctx, key, store.Gaps, 0), position, ledger.Options{MaxBytes: math.MaxInt})
	if err != nil {
		return nil, err
	}
	return l.Gaps(0), nil
}

// Rename is the command that gives the progress of a shard to the same table under another name: of
// a release stream, or of one whose tables share their entities, which go with it.
type Rename struct {
	Stream, From, To string
	// Unordered says that the ids have no order: then there are no gaps.
	Unordered bool
	// Epoch is a new one, above that of the store: messages of older epochs do not count any more
	// (rule 28).
	Epoch uint64
	// Now is the host's time.
	Now time.Time
}

// movedParts are of the table and its ids, whatever the name: gaps, ids that are ahead, the rows
// published last and the schema of their events. shardParts are those, and the others that are not
// of entities.
var (
	movedParts = []store.Kind{store.Gaps, store.Ahead, store.Published, store.SchemaPart}
	shardParts = append([]store.Kind{store.Reconcile, store.AbsentEntities, store.MeaningPart}, movedParts...)
)

// Apply changes the store, and returns the position: sync the store before the command returns.
// After a kill the command is typed again. The former shard is as one that never began, so that the
// progress can be moved back.
func (c Rename) Apply(ctx context.Context, s store.Store) (position uint64, err error) {
	from, to := store.Key{Stream: c.Stream, Shard: c.From}, store.Key{Stream: c.Stream, Shard: c.To}
	before, _, err := s.Progress(ctx, from)
	if err != nil {
		return 0, err
	}
	there, _, err := s.Progress(ctx, to)
	switch {
	case err != nil:
		return 0, err
	case !before.Started:
		return 0, fmt.Errorf("%s %s has no checkpoint: bridge checkpoint show lists those that have one", c.Stream, c.From)
	case there.Started:
		return 0, fmt.Errorf("%s %s has a checkpoint of its own, at id %d: it would be lost, with the gaps of its table", c.Stream, c.To, there.Position)
	}
	after := before
	after.Since, after.Saved = c.Epoch, c.Now
	change := store.ShardChange{Key: to, Progress: &after, Clear: shardParts}
	headed := c.Unordered
	for _, kind := range movedParts {
		for part, err := range s.Parts(ctx, from, kind, 0) {
			if err != nil {
				return 0, err
			}
			if kind == store.Ahead && part.Number == 0 {
				headed, part.Bytes = true, head{epoch: c.Epoch}.appendTo(nil)
			}
			change.Parts = append(change.Parts, store.Part{Kind: kind, Number: part.Number, Bytes: part.Bytes})
		}
	}
	if !headed {
		return 0, fmt.Errorf("%s %s is still to be read from the bus: run bridge until the stream has caught up, stop it, and type the command again", c.Stream, c.From)
	}
	m, err := store.LoadMeaning(ctx, s, from)
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return 0, err
	}
	if m != nil {
		meaning := store.Meaning{Kind: m.Kind, ID: m.ID, Key: m.Key}
		change.Parts = append(change.Parts, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &meaning)})
	}
	former := store.ShardChange{Key: from, Progress: &store.Progress{Since: c.Epoch, Saved: c.Now}, Clear: shardParts}
	b := &store.Batch{Epoch: c.Epoch, Shards: []store.ShardChange{former, change}}
	pause, found, err := s.Progress(ctx, pauseKey(c.Stream, c.From))
	if err != nil {
		return 0, err
	}
	if found {
		b.Shards = append(b.Shards, store.ShardChange{Key: pauseKey(c.Stream, c.To), Progress: &pause})
	}
	if err := eachAbove(ctx, s, from, 0, func(e *store.Entry) { e.Shard = c.To }); err != nil {
		return 0, err
	}
	return before.Position, s.Apply(ctx, b)
}
