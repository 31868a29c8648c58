package view

import (
	"encoding/binary"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

// scope is what an entity belongs to: the stream, or its table.
type scope struct{ byTable bool }

// emptyKey is what is stored for the empty key. Keys hold no control characters.
const emptyKey = 0

// append appends what the store calls an entity.
func (s scope) append(dst []byte, shard string, entity []byte) []byte {
	if s.byTable {
		dst = append(binary.AppendUvarint(dst, uint64(len(shard))), shard...)
	}
	if len(entity) == 0 {
		return append(dst, emptyKey)
	}
	return append(dst, entity...)
}

// entity returns the entity of what is stored, in its memory.
func (s scope) entity(stored []byte) []byte {
	if s.byTable {
		size, n := binary.Uvarint(stored)
		if n <= 0 || size > uint64(len(stored)-n) {
			return nil
		}
		stored = stored[n+int(size):]
	}
	if len(stored) == 1 && stored[0] == emptyKey {
		return stored[:0]
	}
	return stored
}

// registrations know which number is in force for that of an entry (rule 21).
type registrations struct {
	inForce func(uint32) uint32
	// known are answers of inForce by number, 0 for none.
	known []uint32
}

// renewed returns an entry as it is now: disputed if its registration is not in force (rule 21).
// Its caller holds mu.
func (g *registrations) renewed(e store.Entry) store.Entry {
	if e.At.TP == 0 {
		return e
	}
	switch now := g.number(e.At.TP); now {
	case e.At.TP:
	case 0:
		// The stream does not read that TP any more: any message replaces the entry.
		e.At, e.Disputed = store.At{}, true
	default:
		e = catchup.Renewed(e, now)
	}
	return e
}

// number returns the number in force. It asks for each one once while known is not cleared.
func (g *registrations) number(tp uint32) uint32 {
	const most = 1 << 16
	if tp >= most {
		return g.inForce(tp)
	}
	for int(tp) >= len(g.known) {
		g.known = append(g.known, 0)
	}
	if g.known[tp] == 0 {
		g.known[tp] = g.inForce(tp)
	}
	return g.known[tp]
}
