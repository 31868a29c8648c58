package sink

import "strconv"

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

// Dedup returns the id by which a bus drops repeats of m.
func (m *Message) Dedup() string {
	if m.DedupID != "" {
		return m.DedupID
	}
	return m.ID
}

// RepairID returns the DedupID with which a message is stored again within the duplicate window: id
// with the stamp of the message (decision 17, rule 23).
func RepairID(id string, s *State) string {
	text := make([]byte, 0, len(id)+34)
	text = append(append(text, id...), '/')
	text = strconv.AppendUint(text, s.Epoch, 16)
	text = append(text, '.')
	return string(strconv.AppendUint(text, s.Seq, 16))
}
