package verify

// perBlock is how many numbers a block has.
const perBlock = 1024

// numbers is a set of numbers that comes to be nearly complete, in any order: one bit for each
// number in a block that has some of its numbers, nearly nothing for those that have all.
type numbers struct {
	// All blocks before below are full; blocks has the others that are not empty.
	below  uint64
	blocks map[uint64]*block
	// last is the block that was used last, number lastAt.
	last   *block
	lastAt uint64
}

type block struct {
	bits [perBlock / 64]uint64
	n    uint16
}

// fullBlock stands for every block that has all of its numbers.
var fullBlock = &block{n: perBlock}

// What a block takes of a memory, in bytes: one with bits, and a full one.
const (
	blockBytes     = 200
	fullBlockBytes = 48
)

// memory is a number of bytes that are left.
type memory int64

func newNumbers() *numbers { return &numbers{blocks: make(map[uint64]*block)} }

// add adds a number and reports whether it was there. It takes what it needs from left, which may
// go below zero.
func (s *numbers) add(n uint64, left *memory) (was bool) {
	at := n / perBlock
	b := s.last
	if b == nil || s.lastAt != at {
		if at < s.below {
			return true
		}
		if b = s.blocks[at]; b == fullBlock {
			return true
		}
		if b == nil {
			b = new(block)
			s.blocks[at] = b
			*left -= blockBytes
		}
		s.last, s.lastAt = b, at
	}
	word, bit := n%perBlock/64, uint64(1)<<(n%64)
	if b.bits[word]&bit != 0 {
		return true
	}
	b.bits[word] |= bit
	if b.n++; b.n == perBlock {
		s.fill(at, left)
	}
	return false
}

// fill frees a block that has got all of its numbers.
func (s *numbers) fill(at uint64, left *memory) {
	s.last, s.blocks[at] = nil, fullBlock
	*left += blockBytes - fullBlockBytes
	for s.blocks[s.below] == fullBlock {
		delete(s.blocks, s.below)
		s.below++
		*left += fullBlockBytes
	}
}

// missing calls each with every range of numbers below limit that are not there, in their order.
func (s *numbers) missing(limit uint64, each func(first, last uint64)) {
	first, open := uint64(0), false
	end := func(n uint64) {
		if open {
			each(first, n-1)
		}
		open = false
	}
	for n := s.below * perBlock; n < limit; {
		switch b := s.blocks[n/perBlock]; {
		case b == fullBlock:
			end(n)
			n += perBlock
		case b == nil:
			if !open {
				first, open = n, true
			}
			n += perBlock
		default:
			for stop := min(n+perBlock, limit); n < stop; n++ {
				if b.bits[n%perBlock/64]&(1<<(n%64)) != 0 {
					end(n)
				} else if !open {
					first, open = n, true
				}
			}
		}
	}
	end(limit)
}
