package event

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// stateHash makes the digests of one shard's rows. It reuses its memory and serves one
// goroutine.
type stateHash struct {
	hash    hash.Hash
	pending []byte
	sum     [sha256.Size]byte
}

func newStateHash() *stateHash { return &stateHash{hash: sha256.New()} }

// of returns the first 16 bytes of the SHA-256 over name and value of the columns that p hashes,
// each led by its length, in the order of the names. A NULL is left out, so that a new column
// without values changes nothing.
func (s *stateHash) of(p *plan, row [][]byte) [16]byte {
	const flushBytes = 4 << 10
	s.hash.Reset()
	pending := s.pending[:0]
	for i := range p.hashed {
		v := row[p.hashed[i].index]
		if v == nil {
			continue
		}
		pending = append(pending, p.hashed[i].name...)
		if len(pending)+len(v) > flushBytes {
			pending = binary.AppendUvarint(pending, uint64(len(v)))
			s.hash.Write(pending)
			s.hash.Write(v)
			pending = pending[:0]
			continue
		}
		pending = appendSized(pending, v)
	}
	s.hash.Write(pending)
	s.pending = pending
	return [16]byte(s.hash.Sum(s.sum[:0])[:16])
}
