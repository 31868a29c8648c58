package store

import (
	"errors"
	"fmt"
	"time"
)

// MaxEntity is the length of the longest entity that a view holds, in bytes.
const MaxEntity = 32_000

// Fate says what was published last of an entity.
type Fate uint8

// The fates of an entity.
const (
	// None: the view has no entry.
	None Fate = iota
	// Live: its row is there.
	Live
	// Tombstone: its row says that it is deleted.
	Tombstone
	// Absent: its row is gone.
	Absent
)

// Entry is what was published last of an entity, and where on the bus.
type Entry struct {
	// Shard is where the row is, Row its id.
	Shard string
	Row   uint64
	// Digest is the hash of the published columns; zero when absent.
	Digest [16]byte
	// Event is the meta.id of the entity's last event, the 16 bytes of the UUID; zero when none was
	// published.
	Event [16]byte
	// TP is the topic-partition or JetStream stream that holds the message, Offset its offset or
	// sequence there. TP is empty and Offset 0 when none was published.
	TP     string
	Offset int64
	// Epoch and Seq are those of the message.
	Epoch, Seq uint64
	Fate       Fate
	// Since is when the entity was found absent, by the database's clock, to the second, in UTC;
	// zero for the other fates.
	Since time.Time
}

// Newer reports whether e stands behind old in the order of publishing: by the offset within a
// topic-partition, else by epoch and seq. Any entry is newer than none.
func (e *Entry) Newer(old *Entry) bool {
	switch {
	case old.Fate == None:
		return e.Fate != None
	case e.TP == old.TP && e.TP != "":
		return e.Offset > old.Offset
	case e.Epoch != old.Epoch:
		return e.Epoch > old.Epoch
	}
	return e.Seq > old.Seq
}

// Change replaces the entry of an entity. An entry with the fate None removes it.
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
	case e.Fate > Absent:
		return fmt.Errorf("unknown fate %d", e.Fate)
	case e.Fate == None:
		if *e != (Entry{}) {
			return errors.New("an entry without a fate")
		}
	case e.Shard == "":
		return errors.New("an entry without a shard")
	case e.Offset < 0:
		return fmt.Errorf("invalid offset %d", e.Offset)
	case e.TP == "" && e.Offset != 0:
		return fmt.Errorf("offset %d of no topic-partition", e.Offset)
	case e.Fate != Absent && !e.Since.IsZero():
		return errors.New("an entity that is not absent has a time of absence")
	case e.Fate == Absent && e.Digest != [16]byte{}:
		return errors.New("an absent entity has a digest")
	case e.Fate == Absent && (e.Since.Nanosecond() != 0 || e.Since.Location() != time.UTC):
		return fmt.Errorf("the time of absence %v is not in UTC to the second", e.Since)
	}
	return nil
}
