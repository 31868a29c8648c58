package ledger

import (
	"encoding/binary"
	"time"

	"bridge/source"
)

// The least bytes of a saved wide gap with its segment, of a high and of a pending range: they
// bound what a count may claim.
const (
	minSegment = 5
	minHigh    = 2
	minPending = 5
)

const (
	shownBit = 1 << iota
	blockBit
)

// appendHead appends the form of everything that is not in leaves. It is, with integers as varints
// of encoding/binary (u unsigned, i signed):
//
//	version    1 byte, 2
//	position   u
//	noticed    u, from position
//	now        i, the ledger's time
//	given      i, the owner's time at the same moment
//	leaves     u, how many there are
//	segments   count u less one, then each: observed u, expired u, and except for the last the wide
//	           gap above: first u, last u (from first), missed i
//	highs      count u, then each: id u (from the one before), at i
//	pending    count u, then each: first u (from the end of the one before), last u (from first),
//	           since i, seen i, 1 if shown plus 2 if a block (1 byte)
//	checksum   CRC-32C over all before, 4 bytes, little endian
func appendHead(b []byte, s *state, c *clock) []byte {
	b = append(b, ledgerVersion)
	b = binary.AppendUvarint(b, s.position)
	b = binary.AppendUvarint(b, s.noticed-s.position)
	b = binary.AppendVarint(b, c.now)
	b = binary.AppendVarint(b, c.given)
	b = binary.AppendUvarint(b, uint64(len(s.missing.leaves.list)))
	b = appendSegments(b, s.missing)
	b = binary.AppendUvarint(b, uint64(len(s.highs)))
	next := uint64(0)
	for _, h := range s.highs {
		b = binary.AppendUvarint(b, h.id-next)
		b = binary.AppendVarint(b, h.at)
		next = h.id
	}
	b = binary.AppendUvarint(b, uint64(len(s.pending.list)))
	next = 0
	for _, p := range s.pending.list {
		b = binary.AppendUvarint(b, p.First-next)
		b = binary.AppendUvarint(b, p.Last-p.First)
		b = binary.AppendVarint(b, p.since)
		b = binary.AppendVarint(b, p.seen)
		bits := byte(0)
		if p.shown {
			bits |= shownBit
		}
		if p.block {
			bits |= blockBit
		}
		b = append(b, bits)
		next = p.Last
	}
	return sum(b)
}

func appendSegments(b []byte, s *gapSet) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.wide)))
	for k, at := range s.segments {
		b = binary.AppendUvarint(b, at.observed)
		b = binary.AppendUvarint(b, at.expired)
		if k < len(s.wide) {
			w := s.wide[k]
			b = binary.AppendUvarint(b, w.First)
			b = binary.AppendUvarint(b, w.Last-w.First)
			b = binary.AppendVarint(b, w.missed)
		}
	}
	return b
}

// parseHead reads what appendHead wrote into s, which is new, and returns the clock and the number
// of leaves.
func parseHead(b []byte, s *state, away time.Duration) (c clock, leaves uint64, err error) {
	f, err := openForm(b)
	if err != nil {
		return c, 0, err
	}
	s.position = f.uint()
	s.noticed, s.sure = s.position+f.uint(), s.position
	if s.noticed < s.position {
		f.fail("a position out of bounds")
	}
	c = clock{now: f.micros(), given: f.micros(), away: away.Microseconds(), restored: true, started: true}
	leaves = f.uint()
	f.segments(s.missing, s.noticed)
	s.highs = f.highs(s.noticed)
	s.pending.list = f.pending(s.noticed)
	return c, leaves, f.end()
}

// segments reads what appendSegments wrote into s, which is empty.
func (f *form) segments(s *gapSet, noticed uint64) {
	n := f.count(minSegment)
	if n > maxWide {
		f.fail("too many wide gaps")
	}
	s.segments = s.segments[:0]
	for k := 0; k <= n && f.err == nil; k++ {
		s.segments = append(s.segments, segment{observed: f.uint(), expired: f.uint()})
		if k == n {
			break
		}
		first := f.uint()
		w := gap{source.Range{First: first, Last: first + f.uint()}, f.micros()}
		if w.First == 0 || w.Empty() || w.Last > noticed || k > 0 && w.First <= s.wide[k-1].Last {
			f.fail("wide gaps that do not ascend")
		}
		s.wide = append(s.wide, w)
	}
	if f.err != nil {
		s.wide, s.segments = nil, make([]segment, 1)
	}
	for k, at := range s.segments {
		if at.observed > noticed || at.expired > at.observed {
			// Ids are polled once more than they need.
			s.segments[k] = segment{}
		}
	}
}

func (f *form) highs(noticed uint64) highs {
	n := f.count(minHigh)
	if n > maxHighs {
		f.fail("too many heads")
		return nil
	}
	list := make(highs, 0, n)
	for id := uint64(0); len(list) < n; {
		distance := f.uint()
		h := high{id: id + distance, at: f.micros()}
		if f.err == nil && (h.id < id || h.id <= noticed || len(list) > 0 && (distance == 0 || h.at < list[len(list)-1].at)) {
			f.fail("heads that do not ascend")
		}
		if f.err != nil {
			return nil
		}
		list, id = append(list, h), h.id
	}
	return list
}

func (f *form) pending(noticed uint64) []pendingRange {
	n := f.count(minPending)
	if n > maxPending {
		f.fail("too many pending ranges")
		return nil
	}
	list := make([]pendingRange, 0, n)
	for last := uint64(0); len(list) < n; {
		distance := f.uint()
		p := pendingRange{Range: source.Range{First: last + distance}}
		p.Last = p.First + f.uint()
		p.since, p.seen = f.micros(), f.micros()
		bits := f.byte()
		if f.err == nil && (distance == 0 || p.First < last || p.Empty() || p.Last > noticed || bits > shownBit|blockBit) {
			f.fail("pending ranges that do not ascend")
		}
		if f.err != nil {
			return nil
		}
		p.shown, p.block = bits&shownBit != 0, bits&blockBit != 0
		list, last = append(list, p), p.Last
	}
	return list
}
