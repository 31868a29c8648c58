package catchup

import (
	"math"
	"time"

	"bridge/sink"
)

// At is where a message lies.
type At struct {
	// TP is the number of a registration, 0 for none.
	TP uint32
	// Offset is the offset, or the sequence of JetStream.
	Offset uint64
}

// BeforeFirst is the offset of an entry that any message of its TP is behind.
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
	// Shard and Row say which row the entity was last published from.
	Shard uint32
	Row   uint64
	// Digest is that of the row while it is live, Event the meta.id of the last event.
	Digest, Event [16]byte
	State         EntryState
	// Since is when an entity that is absent was found so, to the second.
	Since time.Time
	// At is where the last message lies. Without a TP any message replaces the entry.
	At At
	// Epoch and Seq are the highest stamp that was met, which may be that of a former message.
	Epoch, Seq uint64
	// Disputed says that the bus may end with something else than what was sent last: the next
	// decision publishes, whatever the digest says (rules 6 and 21).
	Disputed bool
}

// Message is what catch-up reads of a message of ours.
type Message struct {
	State sink.State
	// Shard is the number of the shard that published Row.
	Shard uint32
	Row   uint64
	// Event is the meta.id of the message.
	Event [16]byte
	// Time is when the message was published, by its header.
	Time time.Time
	At   At
}

// Apply returns the entry of an entity after a message of it, and whether the message took effect.
// Entry and message stay as they are.
//
// It is rule 6: within a TP the higher offset wins, across TPs the higher stamp. A message with a
// lower stamp than the entry's, behind it in the same TP, takes effect and leaves the entry
// disputed; the entry keeps the higher stamp. A newer message, or that stamp again, ends the
// dispute. Messages of one TP are to be applied in their order, and then the order in which TPs
// are read does not matter. To apply a message twice changes nothing.
func Apply(e Entry, m *Message) (next Entry, applied bool) {
	known, sameTP := e.State != Unknown && e.At.TP != 0, e.At.TP == m.At.TP
	goesBack := m.State.Epoch < e.Epoch || m.State.Epoch == e.Epoch && m.State.Seq < e.Seq
	same := m.State.Epoch == e.Epoch && m.State.Seq == e.Seq
	switch {
	case !known:
		return entryOf(m), true
	case sameTP && m.At.Offset+1 <= e.At.Offset+1: // BeforeFirst wraps to 0.
		return e, false
	case !sameTP && (goesBack || same):
		return e, false
	}
	next = entryOf(m)
	if goesBack {
		next.Epoch, next.Seq, next.Disputed = e.Epoch, e.Seq, true
	}
	return next, true
}

// Renewed returns the entry as it is once its TP has been registered again as tp, to be read from
// the beginning (rule 21). It is disputed until a message with its stamp, or a newer one, is read
// there. An entry is to be renewed before Apply and before a decision.
func (e Entry) Renewed(tp uint32) Entry {
	e.At, e.Disputed = At{TP: tp, Offset: BeforeFirst}, true
	return e
}

// entryOf returns the entry that m alone makes.
func entryOf(m *Message) Entry {
	e := Entry{Shard: m.Shard, Row: m.Row, Event: m.Event, At: m.At, Epoch: m.State.Epoch, Seq: m.State.Seq}
	if m.State.Event != [16]byte{} {
		// Rule 19: the next event links to the refused one, not to its dead letter.
		e.Event = m.State.Event
	}
	switch m.State.Kind {
	case sink.StateTombstone:
		e.State = Tombstone
	case sink.StateAbsent:
		e.State, e.Since = Absent, m.Time.Truncate(time.Second)
	default:
		e.State, e.Digest = Live, m.State.Digest
	}
	return e
}
