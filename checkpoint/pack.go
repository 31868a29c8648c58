package checkpoint

import (
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// bodies holds memory for what is not packed yet: a backlog has some MB of it for each save.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// keepBody is the largest memory that is used again, in bytes.
const keepBody = 8 << 20

// maxExpansion bounds how many bytes one of a snappy block stands for: its longest copies are of 64
// bytes, and take 3.
const maxExpansion = 22

// appendPacked appends a version and after it body, as one snappy block. It leaves room for two
// checksums, that of the form and that of a store, so that dst grows once at most.
func appendPacked(dst []byte, version byte, body []byte) []byte {
	dst = append(slices.Grow(dst, 1+s2.MaxEncodedLen(len(body))+2*checksumSize), version)
	block := s2.EncodeSnappy(dst[len(dst):cap(dst)], body)
	return dst[:len(dst)+len(block)]
}

// unpack goes on with what the snappy block that is left holds. It sets nothing aside for a length
// that the block cannot have.
func (r *reader) unpack() {
	size, err := s2.DecodedLen(r.rest)
	if err != nil || size/maxExpansion > len(r.rest) {
		r.fail("its block is too short for what it claims to hold")
		return
	}
	body, err := s2.Decode(nil, r.rest)
	if err != nil {
		r.fail("its block is damaged")
		return
	}
	r.rest = body
}
