package catchup

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"bridge/checkpoint/store"
	"bridge/sink"
)

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
	if err != nil {
		return hashOther(m)
	}
	return HashMessage(message.Key, message.Event, message.State.Epoch, message.State.Seq)
}

// last is the last message of what is read, kept until it is known to be the last.
type last struct {
	offset uint64
	// hash is that of a message of others; 0: of ours, then what follows has it.
	hash       uint64
	key        []byte
	event      [16]byte
	epoch, seq uint64
}

func (l *last) other(m *sink.Stored) { l.offset, l.hash = m.Offset, hashOther(m) }

func (l *last) ours(m *Message, offset uint64) {
	l.offset, l.hash = offset, 0
	l.key, l.event, l.epoch, l.seq = append(l.key[:0], m.Key...), m.Event, m.State.Epoch, m.State.Seq
}

// anchor returns the anchor at the message.
func (l *last) anchor() store.Anchor {
	if l.hash == 0 {
		l.hash = HashMessage(l.key, l.event, l.epoch, l.seq)
	}
	return store.Anchor{Offset: l.offset, Hash: l.hash}
}
