package stream

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/sink"
)

// Apply returns the entry of an entity after a message of it, and whether the message took effect.
// Entry and message stay as they are.
//
// It is rule 6: within a TP the higher offset wins, across TPs the higher stamp. A message with a
// lower stamp than the entry's, behind it in the same TP, takes effect and leaves the entry
// disputed; the entry keeps the higher stamp. A newer message, or that stamp again, ends the
// dispute. Of a message and its dead letter, which have one stamp, the message counts: an older one
// may come behind it. An entry without a TP is taken for one in the TP of the message, before it.
// Messages of one TP are to be applied in their order, and then the order in which TPs are read
// does not matter. To apply a message twice changes nothing.
func Apply(e store.Entry, m *Message) (next store.Entry, applied bool) {
	known, sameTP := e.State != store.Unknown, e.At.TP == m.At.TP
	goesBack := m.State.Epoch < e.Epoch || m.State.Epoch == e.Epoch && m.State.Seq < e.Seq
	same := m.State.Epoch == e.Epoch && m.State.Seq == e.Seq
	switch {
	case !known:
		return entryOf(m), true
	case e.At.TP == 0:
	case sameTP && m.At.Offset+1 <= e.At.Offset+1: // BeforeFirst wraps to 0.
		return e, false
	case !sameTP && (goesBack || same && m.Dead):
		return e, false
	}
	next = entryOf(m)
	if goesBack {
		next.Epoch, next.Seq, next.Disputed = e.Epoch, e.Seq, true
	}
	return next, true
}

// Renewed returns an entry as it is once its TP has been registered again as tp, to be read from
// the beginning (rule 21). It is disputed until a message with its stamp, or a newer one, is read
// there. An entry is to be renewed before Apply and before a decision.
func Renewed(e store.Entry, tp uint32) store.Entry {
	e.At, e.Disputed = store.At{TP: tp, Offset: store.BeforeFirst}, true
	return e
}

// entryOf returns the entry that m alone makes.
func entryOf(m *Message) store.Entry {
	e := store.Entry{Shard: m.Shard, Row: m.Row, Event: m.Event, At: m.At, Epoch: m.State.Epoch, Seq: m.State.Seq}
	if m.State.Event != [16]byte{} {
		// Rule 19: the next event links to the refused one, not to its dead letter.
		e.Event = m.State.Event
	}
	switch m.State.Kind {
	case sink.StateTombstone:
		e.State = store.Tombstone
	case sink.StateAbsent:
		e.State, e.Since = store.Absent, m.Time.UTC().Truncate(time.Second)
	default:
		e.State, e.Digest = store.Live, m.State.Digest
	}
	return e
}

// HashMessage returns the hash of an anchor at a message of ours (rule 20): of what its publisher
// knows. key is that of the entity, event the meta.id of the message, so that of the dead letter
// and not of the refused event.
func HashMessage(key []byte, event [16]byte, epoch, seq uint64) uint64 {
	var d xxhash.Digest
	d.Reset()
	var fixed [32]byte
	copy(fixed[:16], event[:])
	binary.LittleEndian.PutUint64(fixed[16:], epoch)
	binary.LittleEndian.PutUint64(fixed[24:], seq)
	// A digest never fails to write.
	_, _ = d.Write(fixed[:])
	_, _ = d.Write(key)
	return max(d.Sum64(), 1)
}

// hashOther returns the hash of an anchor at any other message: of its key, value and headers, in
// whichever order these come.
func hashOther(m *sink.Stored) uint64 {
	h := xxhash.Sum64(m.Value)*31 + xxhash.Sum64(m.Key)
	for i := range m.Headers {
		h += xxhash.Sum64String(m.Headers[i].Name)*31 ^ xxhash.Sum64(m.Headers[i].Value)
	}
	return max(h, 1)
}

// hashStored returns the hash of an anchor at m.
func hashStored(m *sink.Stored) uint64 {
	message, err := ParseMessage(m)
	return hashOf(m, &message, err)
}

// hashOf returns the hash of an anchor at m, of which message and err are what ParseMessage says.
func hashOf(m *sink.Stored, message *Message, err error) uint64 {
	if err != nil {
		return hashOther(m)
	}
	return HashMessage(message.Key, message.Event, message.State.Epoch, message.State.Seq)
}
