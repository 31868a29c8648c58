package store

import (
	"errors"
	"fmt"
	"time"

	"bridge/source"
	"bridge/source/ledger"
)

// Image is what a store holds without views and parts.
type Image struct {
	Fence  Fence
	Shards map[Key]Progress
	TPs    map[string]Offset
}

// Fence tells this process from former ones on the bus. Sync it before its first use.
type Fence struct {
	// Epoch is the epoch of this process; 0: none yet.
	Epoch uint64
	// ProducerID and ProducerEpoch are those of the Kafka producer, if HasProducer.
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
}

// Progress is how far a shard has been published.
type Progress struct {
	// Position is the highest id that was published, or the id that START chose.
	Position uint64
	// Reading is when ids were first seen.
	Reading ledger.Reading
	// Cursor is the position of the second cursor.
	Cursor source.Cursor
	// Started says that the decision about START was made, Floor is its outcome: below it, a row
	// without an entry is recorded and not published.
	Started bool
	Floor   uint64
	// Snapshot holds the ids that START=latest still has to record; zero: none.
	Snapshot source.Range
	// Epoch and Seq are those of the shard's last message.
	Epoch, Seq uint64
	// Saved is when this was applied, by the host's clock. Times are kept to the microsecond, in
	// UTC.
	Saved time.Time
}

// Offset is how far a topic-partition or JetStream stream is covered by the store.
type Offset struct {
	// Covered is the offset or sequence at or below which everything of ours is in the store; -1:
	// nothing is.
	Covered int64
	// Anchor is our last message at or below Covered.
	Anchor Anchor
}

// Anchor is a message of ours, by which a topic or stream that was made again is noticed. The zero
// Seq says that there is none.
type Anchor struct {
	Offset     int64
	Epoch, Seq uint64
}

// Kind says what a part is about. Each kind has numbers of its own.
type Kind uint8

// The kinds of parts.
const (
	// Gaps: the gap ledger; number 0 is its head.
	Gaps Kind = 1 + iota
	// Published: the ids that were published.
	Published
	// Reconcile: the reconcile run and what it has found.
	Reconcile
	// Meaning: the configuration that the shard's progress was made with.
	Meaning
	kinds
)

// Part is one of the values that are too large, or change too rarely, for Progress. A store does
// not look into it.
type Part struct {
	Kind   Kind
	Number uint64
	// Bytes are the part's form; nil removes the part.
	Bytes []byte
}

// Batch is what one Apply changes, in the order of its fields.
type Batch struct {
	// Forget removes all that is kept of these streams: shards, parts and views.
	Forget []string
	// Fence replaces the fence unless it is nil.
	Fence *Fence
	// TPs replaces offsets. A topic-partition that is new is registered by it.
	TPs map[string]Offset
	// Shards changes shards, each at most once.
	Shards []ShardChange
	// Views changes views. Of several changes of one entity the last one holds.
	Views []ViewChange
}

// ShardChange changes the progress and parts of a shard.
type ShardChange struct {
	Key Key
	// Progress replaces the progress unless it is nil.
	Progress *Progress
	// Clear removes all parts of these kinds, before Parts are added.
	Clear []Kind
	Parts []Part
}

// ViewChange changes the view of a stream.
type ViewChange struct {
	Stream  string
	Changes []Change
}

// Check returns an error when b is invalid.
func (b *Batch) Check() error {
	for tp, o := range b.TPs {
		if tp == "" || o.Covered < -1 || o.Anchor.Offset < 0 {
			return fmt.Errorf("topic-partition %q: invalid offset %+v", tp, o)
		}
	}
	for i := range b.Shards {
		if err := b.Shards[i].check(); err != nil {
			return fmt.Errorf("shard %s of %s: %w", b.Shards[i].Key.Shard, b.Shards[i].Key.Stream, err)
		}
	}
	for _, view := range b.Views {
		if view.Stream == "" {
			return errors.New("a view without a stream")
		}
		for i := range view.Changes {
			if err := view.Changes[i].Check(); err != nil {
				return fmt.Errorf("view of %s: %w", view.Stream, err)
			}
		}
	}
	return nil
}

func (c *ShardChange) check() error {
	if c.Key.Stream == "" || c.Key.Shard == "" {
		return errors.New("a shard without its names")
	}
	for _, kind := range c.Clear {
		if kind == 0 || kind >= kinds {
			return fmt.Errorf("unknown kind %d of parts", kind)
		}
	}
	for _, part := range c.Parts {
		if part.Kind == 0 || part.Kind >= kinds {
			return fmt.Errorf("unknown kind %d of a part", part.Kind)
		}
	}
	if p := c.Progress; p != nil {
		if p.Snapshot.First > p.Snapshot.Last {
			return fmt.Errorf("the ids %d-%d are no range", p.Snapshot.First, p.Snapshot.Last)
		}
		for _, t := range []time.Time{p.Saved, p.Reading.At} {
			if t.Year() < 1 || t.Year() > 9999 {
				return fmt.Errorf("the time %v is outside the years 1 to 9999", t)
			}
		}
	}
	return nil
}
