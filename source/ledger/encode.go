package ledger

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"bridge/source"
)

// How the gaps of a leaf are written: the times once for all gaps that were missed together, the
// ids as distances or, where they are dense, as bits.
const (
	asDistances = iota
	asBits
)

// appendGaps appends the form of list, which must not be empty, to dst. It is, with integers as
// varints of encoding/binary (u unsigned, i signed):
//
//	version    1 byte, 2
//	missed     i, of the first gap
//	count      u, of gaps
//	times      length u in bytes, then groups of gaps: later u (microseconds since the group before), gaps u
//	kind       1 byte: 0 distances, 1 bits
//	distances  long gaps: length u in bytes, then each: distance u in the list of gaps from the one before, ids u beyond the first;
//	           then of every gap: distance u (seen ids since the end of the gap before; the first id itself for the first)
//	bits       first id u, then bytes: bit i of them, from the lowest, stands for the id first+i
//	checksum   CRC-32C over all before, 4 bytes, little endian
func appendGaps(dst []byte, list []gap) []byte {
	dst = append(dst, ledgerVersion)
	dst = binary.AppendVarint(dst, list[0].missed)
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	dst = appendSection(dst, func(b []byte) []byte { return appendTimes(b, list) })
	at := len(dst)
	dst = appendDistances(append(dst, asDistances), list)
	if size := bitBytes(list); size > 0 && size < len(dst)-at {
		dst = appendBits(append(dst[:at], asBits), list, size)
	}
	return sum(dst)
}

// appendSection appends what f appends, with its length before it.
func appendSection(dst []byte, f func([]byte) []byte) []byte {
	at := len(dst)
	dst = f(dst)
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(dst)-at))
	return slices.Insert(dst, at, length[:n]...)
}

func appendTimes(dst []byte, list []gap) []byte {
	missed := list[0].missed
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n].missed == list[i].missed {
			n++
		}
		dst = binary.AppendUvarint(dst, uint64(list[i].missed-missed))
		dst = binary.AppendUvarint(dst, uint64(n))
		missed = list[i].missed
		i += n
	}
	return dst
}

func appendDistances(dst []byte, list []gap) []byte {
	dst = appendSection(dst, func(b []byte) []byte {
		before := 0
		for i, r := range list {
			if r.Last > r.First {
				b = binary.AppendUvarint(b, uint64(i-before))
				b = binary.AppendUvarint(b, r.Last-r.First)
				before = i
			}
		}
		return b
	})
	next := uint64(0)
	for _, r := range list {
		dst = binary.AppendUvarint(dst, r.First-next)
		next = r.Last + 1
	}
	return dst
}

// bitBytes returns how many bytes the ids of list take as bits, with their first, and 0 where bits
// cannot tell the gaps apart or would take far more than distances do.
func bitBytes(list []gap) int {
	first, last := list[0].First, list[len(list)-1].Last
	if last-first >= uint64(len(list))*8*2*binary.MaxVarintLen64 || last+16 < last {
		return 0
	}
	for i, r := range list[1:] {
		if r.First == list[i].Last+1 {
			return 0
		}
	}
	return int((last-first)/8) + 1 + uvarintSize(first)
}

func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func appendBits(dst []byte, list []gap, size int) []byte {
	first := list[0].First
	dst = binary.AppendUvarint(dst, first)
	at := len(dst)
	dst = append(dst, make([]byte, size-uvarintSize(first))...)
	for _, r := range list {
		for id := r.First - first; id <= r.Last-first; id++ {
			dst[at+int(id/8)] |= 1 << (id % 8)
		}
	}
	return dst
}

// eachGap calls yield for the gaps of a form that parseGaps accepts, in ascending order, until it
// returns false, and reports whether it never did.
func eachGap(b []byte, yield func(gap) bool) bool {
	b = b[1 : len(b)-ledgerSum]
	missed, n := binary.Varint(b)
	b = b[n:]
	count, n := binary.Uvarint(b)
	b = b[n:]
	length, n := binary.Uvarint(b)
	times := leafTimes{rest: b[n : n+int(length)], missed: missed}
	b = b[n+int(length):]
	kind, b := b[0], b[1:]
	if kind == asBits {
		return eachOfBits(b, times, yield)
	}
	return eachOfDistances(b, times, count, yield)
}

// leafTimes returns the times of one gap after the other.
type leafTimes struct {
	rest   []byte
	missed int64
	left   uint64
}

func (t *leafTimes) next() int64 {
	if t.left == 0 {
		later, n := uvarint(t.rest)
		t.rest = t.rest[n:]
		t.missed += int64(later)
		t.left, n = uvarint(t.rest)
		t.rest = t.rest[n:]
	}
	t.left--
	return t.missed
}

func eachOfDistances(b []byte, times leafTimes, count uint64, yield func(gap) bool) bool {
	length, n := binary.Uvarint(b)
	long, b := b[n:n+int(length)], b[n+int(length):]
	next, left := uint64(0), ^uint64(0)
	if len(long) > 0 {
		left, n = uvarint(long)
		long = long[n:]
	}
	for range count {
		distance, n := uvarint(b)
		b = b[n:]
		first := next + distance
		r := gap{source.Range{First: first, Last: first}, times.next()}
		if left == 0 {
			more, n := uvarint(long)
			long = long[n:]
			r.Last += more
			left = ^uint64(0)
			if len(long) > 0 {
				left, n = uvarint(long)
				long = long[n:]
			}
		}
		left--
		next = r.Last + 1
		if !yield(r) {
			return false
		}
	}
	return true
}

func eachOfBits(b []byte, times leafTimes, yield func(gap) bool) bool {
	first, n := binary.Uvarint(b)
	b = b[n:]
	open, began := false, uint64(0)
	for i := range b {
		at := uint64(8 * i)
		switch v := b[i]; {
		case v == 0xff && open, v == 0 && !open:
			continue
		default:
			for bit := uint64(0); bit < 8; bit++ {
				set := v>>bit&1 == 1
				if set == open {
					continue
				}
				if open = set; set {
					began = first + at + bit
				} else if !yield(gap{source.Range{First: began, Last: first + at + bit - 1}, times.next()}) {
					return false
				}
			}
		}
	}
	return !open || yield(gap{source.Range{First: began, Last: first + uint64(8*len(b)) - 1}, times.next()})
}

// uvarint is binary.Uvarint with a short cut for the single byte that most numbers are.
func uvarint(b []byte) (uint64, int) {
	if b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
