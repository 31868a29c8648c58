package catchup

import (
	"time"

	"bridge/checkpoint/store"
	"bridge/sink"
)

// Message is what catch-up reads of a stored message of ours, by its headers and key alone.
type Message struct {
	// State is the header. Its Key is empty: see Key.
	State sink.State
	// Stream, Shard and Row say which row the message is about, Origin why it was published.
	Stream, Shard string
	Row           uint64
	Origin        sink.Origin
	// Key is that of the entity, from the header where it has one. It is valid until [Feed.Apply]
	// returns.
	Key []byte
	// Event is the meta.id of the message.
	Event [16]byte
	// Time is when the message was published, by its header.
	Time time.Time
	At   store.At
	// Schema is zero where the message does not tell it, as a dead letter does not.
	Schema Schema
	// Late says that the entity is to be nominated: what the message says may be old (rule 7).
	Late bool
	// Dead says that this is the dead letter of an event that the bus refused (rule 19).
	Dead bool
}

// ParseMessage returns what a stored message of ours says by its headers and key. Stream, Shard and
// At are the caller's to set. Its Key is a part of m.
func ParseMessage(m *sink.Stored) (Message, error) {
	var f sink.Fields
	var message Message
	f.Read(m)
	err := message.parse(&f, m)
	return message, err
}
