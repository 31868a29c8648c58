package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"example.org/bridge/source"
)

// Image is what a store holds without views and parts.
type Image struct {
	// Epoch is the epoch of this process (rule 1); 0: none yet. Sync it before its first use.
	Epoch  uint64
	Shards map[Key]Progress
	// Registrations are in the order of their numbers.
	Registrations []Registration
}

// Anchor is a message by which a TP is known again (rule 20).
type Anchor struct {
	Offset uint64
	// Hash is of what is there; 0: no message.
	Hash uint64
}

// Later returns the one of a and b with the higher offset. One without a message is before all.
func (a Anchor) Later(b Anchor) Anchor {
	if a.Hash == 0 || b.Hash != 0 && b.Offset > a.Offset {
		return b
	}
	return a
}

// Registration is how a stream knows a TP, which is a topic-partition of Kafka or a stream of
// JetStream: that it reads it, and how far (rules 10, 20 to 22). Sync it before its first use.
type Registration struct {
	// Number names the registration, from 1. Entries refer to it, so it is never given to another
	// one; forgetting the stream frees it.
	Number uint32
	// Stream is ours. TP is the name of the topic-partition, Incarnation that of one that may be
	// made again under its name; empty where the bus does not tell.
	Stream, TP, Incarnation string
	// Next is the first offset that the store does not cover (rule 4).
	Next uint64
	// Last is the last message below Next, ours or not. High is the highest that was acknowledged,
	// which may lie beyond a hole (rule 20).
	Last, High Anchor
	// Epoch is the highest epoch that was met in it (rule 7).
	Epoch uint64
	// Seen is when nothing of it was left to read, or when it was registered: Unix time in
	// milliseconds, by the clock of the machine (rule 30). It is not kept up where nothing happens.
	Seen uint64
	// Late says that it began late: messages expired unread (rules 22 and 27).
	Late bool
	// Retired says that another registration of Stream and TP is in force (rule 21).
	Retired bool
}

// Progress is how far a shard has been published.
type Progress struct {
	// Position is the row id up to which the shard has been published, but for its gaps.
	Position uint64
	// Cursor is the position of the second cursor.
	Cursor source.Cursor
	// Started says that the decision about START was made. Floor is its outcome: below it, a row
	// without an entry is recorded and not published (rule 16).
	Started bool
	Floor   uint64
	// Since is the epoch below which messages do not count for the progress (rule 28).
	Since uint64
	// Low is the highest row id, of those that messages told, below which a release shard has
	// nothing left to publish (rule 27).
	Low uint64
	// Snapshot holds the ids that START=latest still has to record; zero: none.
	Snapshot source.Range
	// Saved is when this was applied, by the host's clock, in the years 1 to 9999, and is kept to
	// the microsecond, in UTC.
	Saved time.Time
	// ReconcileDue says that a reconcile follows at once (rules 7 and 15).
	ReconcileDue bool
}

// Kind says what a part is about. Each kind has numbers of its own.
type Kind uint8

// The kinds of parts.
const (
	// Gaps: the gap ledger; number 0 is its head.
	Gaps Kind = 1 + iota
	// Ahead: ids above the position that were published (rule 15).
	Ahead
	// Published: the rows that were published last.
	Published
	// Reconcile: the run of reconcile and what it has found, number 0; [AnsweringRun].
	Reconcile
	// AbsentEntities: the entities that were found absent and wait for the end of the run.
	AbsentEntities
	// MeaningPart: the [Meaning] of the progress, number 0.
	MeaningPart
	// Noted: messages that a former version has read while the shard ran, and that its progress
	// lacks. None is written any more.
	Noted
	// SchemaPart: the [Schema] of the events published last, number 0.
	SchemaPart
	// LateEntities: the entities of late messages whose owners have not decided yet, one a part
	// (rule 7).
	LateEntities
	kinds
)

// AnsweringRun is the number of the part of the kind Reconcile that says which run began behind the
// last demand for one: when it did, as its reconcile writes it. The next demand removes the part.
const AnsweringRun = 1

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
	// Forget removes all that is kept of these streams: registrations, shards, parts and views.
	Forget []string
	// Epoch replaces that of the image unless it is 0.
	Epoch uint64
	// Registrations replace those with their numbers, or are new.
	Registrations []Registration
	// Shards changes shards, each at most once.
	Shards []ShardChange
	// Views changes views. Of several changes of one entity the last one holds.
	Views []ViewChange
}

// ShardChange changes the progress and parts of a shard.
type ShardChange struct {
	Key Key
	// Remove removes progress and parts, before the rest is changed.
	Remove bool
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
	for i := range b.Registrations {
		if err := b.Registrations[i].check(); err != nil {
			return fmt.Errorf("registration of %s: %w", b.Registrations[i].TP, err)
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

func (r *Registration) check() error {
	switch {
	case r.Number == 0:
		return errors.New("a registration without a number")
	case r.Stream == "" || r.TP == "":
		return errors.New("a registration without its names")
	case r.Last.Hash != 0 && r.Last.Offset >= r.Next:
		return fmt.Errorf("its last message %d is not below the offset %d", r.Last.Offset, r.Next)
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
		if year := p.Saved.Year(); year < 1 || year > 9999 {
			return fmt.Errorf("the time %v is outside the years 1 to 9999", p.Saved)
		}
	}
	return nil
}

// MaxEntity is the length of the longest entity that a view holds, in bytes.
const MaxEntity = 32_000

// At is where a message lies.
type At struct {
	// TP is the number of a [Registration], 0 for none.
	TP uint32
	// Offset is the offset, or the sequence of JetStream.
	Offset uint64
}

// BeforeFirst is the offset of an entry that any message of its TP is behind (rule 21).
const BeforeFirst = math.MaxUint64

// EntryState says what a view has of an entity.
type EntryState uint8

// The states of an entry. Unknown is that of the zero Entry: the view has none.
const (
	Unknown EntryState = iota
	// Live: the row is there, and its digest was published.
	Live
	// Tombstone: the row says that it is deleted, and that was published.
	Tombstone
	// Absent: the row is gone, and that was published.
	Absent
	// Recorded: the row is there, and was not published because it lies below the floor (rule 16).
	Recorded
)

// Entry is what a view has of an entity: what its last message said, and where that lies.
type Entry struct {
	// Shard and Row say which row the entity was last published from, or recorded in.
	Shard string
	Row   uint64
	// Digest is the hash of the published columns; zero when absent. Event is the meta.id of the
	// last event, the 16 bytes of the UUID; zero when none was published.
	Digest, Event [16]byte
	State         EntryState
	// Since is when an absent entity was found so, to the second, in UTC; zero in other states.
	Since time.Time
	// At is where the last message lies. Without a TP any message replaces the entry (rule 6).
	At At
	// Epoch and Seq are the highest stamp that was met, which may be that of a former message.
	Epoch, Seq uint64
	// Disputed says that the bus may not end with the message that was sent last: the next
	// decision publishes, whatever the digest says (rules 6 and 21).
	Disputed bool
}

// Ask asks for the entry of an entity.
type Ask struct {
	Entity []byte
	// Shard and Row say which row may have the entity: a store looks there first. Without a Shard
	// they say nothing.
	Shard string
	Row   uint64
}

// Change replaces the entry of an entity. An entry in the state Unknown removes it.
type Change struct {
	// Entity is the canonical form of the key columns, 1 to MaxEntity bytes.
	Entity []byte
	Entry  Entry
}

// Check returns an error when c is invalid.
func (c *Change) Check() error {
	if n := len(c.Entity); n == 0 || n > MaxEntity {
		return fmt.Errorf("the entity %.40q has %d bytes, a view takes 1 to %d: choose shorter key columns", c.Entity, n, MaxEntity)
	}
	if err := c.Entry.check(); err != nil {
		return fmt.Errorf("entity %.40q: %w", c.Entity, err)
	}
	return nil
}

func (e *Entry) check() error {
	switch {
	case e.State > Recorded:
		return fmt.Errorf("unknown state %d", e.State)
	case e.State == Unknown:
		if *e != (Entry{}) {
			return errors.New("an entry without a state")
		}
	case e.Shard == "":
		return errors.New("an entry without a shard")
	case e.At.TP == 0 && e.At.Offset != 0:
		return fmt.Errorf("offset %d of no topic-partition", e.At.Offset)
	case e.State != Absent && !e.Since.IsZero():
		return errors.New("an entity that is not absent has a time of absence")
	case e.State == Absent && e.Digest != [16]byte{}:
		return errors.New("an absent entity has a digest")
	case e.State == Absent && (e.Since.Nanosecond() != 0 || e.Since.Location() != time.UTC):
		return fmt.Errorf("the time of absence %v is not in UTC to the second", e.Since)
	case e.State == Absent && (e.Since.Year() < 1 || e.Since.Year() > 9999):
		return fmt.Errorf("the time of absence %v is outside the years 1 to 9999", e.Since)
	}
	return nil
}
