package store

import (
	"errors"
	"fmt"
	"math"
	"time"
)

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

// Asks asks for the entries of entities of which nothing is known.
func Asks(entities ...[]byte) []Ask {
	asks := make([]Ask, len(entities))
	for i, entity := range entities {
		asks[i].Entity = entity
	}
	return asks
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
