package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"example.org/bridge/internal/form"
	"example.org/bridge/source"
)

// gap is a range of ids first missed at one moment, in microseconds of the ledger's time.
type gap struct {
	source.Range
	missed int64
}

// size is the number of ids in g; a gap never has all 2^64.
func (g gap) size() uint64 { return g.Last - g.First + 1 }

// block has up to some hundreds of gaps in their saved form, or a wide gap, which the head has.
type block struct {
	// key is at or below every id of the block and above every id of the block before.
	key uint64
	source.Range
	ids            uint64
	widest         uint64
	gaps           int
	oldest, newest int64
	// form is nil while the block is only in the store. It is replaced, never changed, so that it
	// can be read while it is saved. size is its length.
	form []byte
	size int
	wide bool
}

const (
	// blockGaps is how many gaps are put into one block; it has twice as many at most.
	blockGaps = 512
	// blockSize is the memory of a block besides its form.
	blockSize = 112
)

// count counts g, which is above the gaps before.
func (b *block) count(g gap) {
	if b.gaps == 0 {
		b.First, b.oldest = g.First, g.missed
	}
	b.Last, b.newest = g.Last, g.missed
	b.gaps++
	b.ids += g.size()
	b.widest = max(b.widest, g.size())
}

// parseBlock returns the block of a saved part, and keeps its bytes. The error wraps ErrDamaged.
func parseBlock(c Chunk) (block, error) {
	b := block{key: c.Key, form: c.Bytes, size: len(c.Bytes)}
	f := reader{form.Open(c.Bytes, formVersion)}
	err := f.gaps(func(g gap) bool {
		b.count(g)
		return true
	})
	if err == nil && b.First < c.Key {
		err = fmt.Errorf("%w: ids below the key of their part", ErrDamaged)
	}
	return b, err
}

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
//	times      length u in bytes, then groups of gaps: later u (microseconds since the group before),
//	           gaps u
//	kind       1 byte: 0 distances, 1 bits
//	distances  long gaps: length u in bytes, then each: distance u in the list of gaps from the one
//	           before, ids u beyond the first; then of every gap: distance u (seen ids since the end
//	           of the gap before; the first id itself for the first)
//	bits       first id u, then bytes: bit i of them, from the lowest, stands for the id first+i
//	checksum   CRC-32C over all before, 4 bytes, little endian
func appendGaps(dst []byte, list []gap) []byte {
	dst = append(dst, formVersion)
	dst = binary.AppendVarint(dst, list[0].missed)
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	times, missed := len(dst), list[0].missed
	for i := 0; i < len(list); {
		n := i + 1
		for n < len(list) && list[n].missed == list[i].missed {
			n++
		}
		dst = form.AppendUints(dst, uint64(list[i].missed-missed), uint64(n-i))
		missed, i = list[i].missed, n
	}
	dst = insertLength(dst, times)
	kind, before := len(dst), 0
	dst = append(dst, asDistances)
	for i, g := range list {
		if g.Last > g.First {
			dst = binary.AppendUvarint(dst, uint64(i-before))
			dst = binary.AppendUvarint(dst, g.Last-g.First)
			before = i
		}
	}
	dst = insertLength(dst, kind+1)
	next, apart := uint64(0), true
	for i, g := range list {
		apart = apart && (i == 0 || g.First > next)
		dst = binary.AppendUvarint(dst, g.First-next)
		next = g.Last + 1
	}
	// As bits, where they tell the gaps apart and take less space.
	first, last := list[0].First, list[len(list)-1].Last
	n := (last-first)/8 + 1
	var number [binary.MaxVarintLen64]byte
	if apart && last+16 > last && n+uint64(binary.PutUvarint(number[:], first)) < uint64(len(dst)-kind) {
		dst = binary.AppendUvarint(append(dst[:kind], asBits), first)
		at := len(dst)
		dst = append(dst, make([]byte, n)...)
		for _, g := range list {
			for id := g.First - first; id <= g.Last-first; id++ {
				dst[at+int(id/8)] |= 1 << (id % 8)
			}
		}
	}
	return form.Seal(dst)
}

// gaps calls yield for the gaps that appendGaps wrote, in ascending order, until it returns false.
// After the whole form it returns the first error, which wraps ErrDamaged.
func (f *reader) gaps(yield func(gap) bool) error {
	if f.Err != nil {
		return damaged(f.Err)
	}
	missed, count, times := f.time(), f.Uint(), f.section()
	n, same, last := uint64(0), uint64(0), uint64(0)
	timed := func(r source.Range) bool {
		if same == 0 {
			later := times.Uint()
			same = times.Uint()
			if same == 0 || later > uint64(maxTime-missed) || n == 0 && later > 0 {
				f.Fail("times of another number of gaps or out of bounds")
				return false
			}
			missed += int64(later)
		}
		if r.First <= last || r.Empty() {
			f.Fail("gaps that do not ascend")
			return false
		}
		n, same, last = n+1, same-1, r.Last
		return yield(gap{r, missed})
	}
	whole := false
	switch f.Uint() {
	case asDistances:
		whole = f.distances(count, timed)
	case asBits:
		whole = f.bits(timed)
	default:
		f.Fail("ids of an unknown kind")
	}
	if whole && (count == 0 || n != count || same > 0 || len(times.Rest)+len(f.Rest) > 0) {
		f.Fail("another number of gaps")
	}
	return damaged(f.Err)
}

// distances reports whether yield never returned false.
func (f *reader) distances(count uint64, yield func(source.Range) bool) bool {
	long := f.section()
	// The index of the next long gap.
	at := uint64(1<<64 - 1)
	if len(long.Rest) > 0 {
		at = long.Uint()
	}
	b, next := f.Rest, uint64(0)
	for i := range count {
		distance, n := form.Uvarint(b)
		if n <= 0 {
			f.Fail("gaps that are cut off")
			return false
		}
		b = b[n:]
		r := source.Range{First: next + distance, Last: next + distance}
		if i == at {
			if r.Last += long.Uint(); len(long.Rest) > 0 {
				at += long.Uint()
			}
		}
		next = r.Last + 1
		if !yield(r) {
			return false
		}
	}
	if f.Rest = b; len(long.Rest) > 0 {
		f.Fail("a long gap that is not there")
	}
	return true
}

func (f *reader) bits(yield func(source.Range) bool) bool {
	first := f.Uint()
	b := f.Rest
	f.Rest = nil
	open, began := false, uint64(0)
	for i, v := range b {
		if v == 0 && !open || v == 0xff && open {
			continue
		}
		for bit := range 8 {
			if set := v>>bit&1 == 1; set == open {
				continue
			}
			id := first + uint64(8*i+bit)
			if open = !open; open {
				began = id
			} else if !yield(source.Range{First: began, Last: id - 1}) {
				return false
			}
		}
	}
	return !open || yield(source.Range{First: began, Last: first + uint64(8*len(b)) - 1})
}

// ErrDamaged is returned when the saved form of a ledger is damaged, incomplete or does not fit the
// position. Test with errors.Is.
var ErrDamaged = errors.New("gap ledger is damaged")

func damaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

const (
	formVersion = 2
	// maxTime bounds times, in microseconds either side of 1970, so that no sum of them overflows.
	maxTime = 1 << 60
)

func insertLength(b []byte, at int) []byte {
	n := len(b) - at
	b = binary.AppendUvarint(b, uint64(n))
	var length [binary.MaxVarintLen64]byte
	size := copy(length[:], b[at+n:])
	copy(b[at+size:], b[at:at+n])
	copy(b[at:], length[:size])
	return b
}

type reader struct{ form.Reader }

func (f *reader) time() int64 {
	v := f.Int()
	if v < -maxTime || v > maxTime {
		f.Fail("a time is out of bounds")
		return 0
	}
	return v
}

func (f *reader) section() reader { return reader{form.Reader{Rest: f.Bytes(f.Uint())}} }
