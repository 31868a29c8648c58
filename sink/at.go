package sink

import (
	"encoding/binary"
	"strconv"
)

// At says where on the bus an acknowledged message lies. The zero value says that this is not
// known.
//
// On Kafka the offset is the base offset of the broker's answer plus the index of the message among
// the records that it took with it. A batch whose answer was lost is sent again with the same
// sequence, and the broker answers with the offset that the batch got at first. A broker that only
// knows that it has the batch (DUPLICATE_SEQUENCE_NUMBER), or answers with offset -1, tells no
// offset. On JetStream it is the sequence of the acknowledgement; a message that asked for none was
// stored under a condition that names its sequence.
//
// A message that a retry has stored twice lies at the offset that was acknowledged; the other copy
// lies before or after it. An offset is what the bus said: another message may lie there (decision
// 17, rules 2 and 23).
type At struct {
	// Offset is the offset of Kafka or the sequence of JetStream.
	Offset uint64
	// TP is an index into Outcome.TPs.
	TP int32
	// Known: the bus told the offset. Without it all other fields are zero.
	Known bool
	// Duplicate: JetStream dropped the message, because within its duplicate window it has stored
	// one with the same DedupID, at Offset. That may be an earlier attempt of this call, another
	// message, or be removed since.
	Duplicate bool
	// Marker: the offset before this one holds the end of a transaction of this sink, and no
	// message.
	Marker bool
}

// TPRef names a TP of an outcome.
type TPRef struct {
	// Name and Incarnation are those of [TP]. Incarnation is what the sink knew before it sent: a
	// TP that was created again since has the former one until the sink notices.
	Name, Incarnation string
}

// DedupID returns the id by which a bus drops repeats of m: ID, a hash of domain and destination,
// since two installations may give one id to two facts, and where Again is set the stamp (decision
// 17, rule 23).
func (m *Message) DedupID() string {
	// FNV-1a of 64 bits.
	hash := uint64(14695981039346656037)
	for _, part := range [...]string{m.Domain, "\x00", m.Destination} {
		for i := range len(part) {
			hash = (hash ^ uint64(part[i])) * 1099511628211
		}
	}
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], hash)
	text := make([]byte, 0, 64)
	text = digestText.AppendEncode(append(append(text, m.ID...), '/'), sum[:])
	if m.Again {
		text = strconv.AppendUint(append(text, '/'), m.State.Epoch, 16)
		text = strconv.AppendUint(append(text, '.'), m.State.Seq, 16)
	}
	return string(text)
}
