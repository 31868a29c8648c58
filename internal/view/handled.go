package view

import (
	"encoding/binary"
	"hash/maphash"

	"bridge/checkpoint/store"
)

// version is a row with what it says.
type version struct {
	shard   string
	row     uint64
	digest  [16]byte
	deleted bool
}

// versionOf returns the row that an entry was made of, as far as the entry tells.
func versionOf(e *store.Entry) version {
	return version{e.Shard, e.Row, e.Digest, e.State == store.Tombstone}
}

// version returns the row.
func (f *Found) version() version {
	return Row{ID: f.Row, Digest: f.Digest, Deleted: f.Deleted}.version(f.Shard)
}

// version returns a row of a shard. Of one that is deleted the digest does not matter.
func (d Row) version(shard string) version {
	if d.Deleted {
		d.Digest = [16]byte{}
	}
	return version{shard, d.ID, d.Digest, d.Deleted}
}

// loser is a row whose key another row has, by rule 29: nothing is nominated again while both say
// the same.
type loser struct {
	entity      uint64
	winner, row version
}

func (l loser) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var b [8]byte
	// A maphash.Hash returns no error.
	binary.LittleEndian.PutUint64(b[:], l.entity)
	_, _ = h.Write(b[:])
	for _, v := range [...]*version{&l.winner, &l.row} {
		binary.LittleEndian.PutUint64(b[:], v.row)
		_, _ = h.Write(b[:])
		_, _ = h.Write(v.digest[:])
		_, _ = h.WriteString(v.shard)
		last := byte(0)
		if v.deleted {
			last = 1
		}
		_ = h.WriteByte(last)
	}
	return h.Sum64()
}

// handled remembers losers by their hash. It is bounded: one that is forgotten is nominated, and
// loses, once more.
type handled struct{ young, old map[uint64]struct{} }

// handledAtOnce bounds one half of handled, about 20 bytes each.
const handledAtOnce = 1 << 14

func (h *handled) empty() bool { return len(h.young)+len(h.old) == 0 }

func (h *handled) add(hash uint64) {
	if len(h.young) >= handledAtOnce || h.young == nil {
		h.old, h.young = h.young, make(map[uint64]struct{})
	}
	h.young[hash] = struct{}{}
}

func (h *handled) has(hash uint64) bool {
	_, young := h.young[hash]
	_, old := h.old[hash]
	return young || old
}
