package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrBadLedger is returned when the saved form of a ledger is damaged, incomplete or does not fit the position. Test with
// errors.Is.
var ErrBadLedger = errors.New("gap ledger is damaged")

// run is a closed range of missing ids that were first missed at one moment, in microseconds of the ledger's time.
type run struct {
	first, last uint64
	missed      int64
}

// ids is the number of ids in r; a run never holds all 2^64.
func (r run) ids() uint64 { return r.last - r.first + 1 }

// leaf holds up to some hundreds of runs in their compact form, of about three bytes each, which is also the form in which they
// are saved. form is never changed, only replaced, so that it may be read by who saves it.
type leaf struct {
	// key is at or below every id of the leaf and above every id of the leaf before. It never changes.
	key uint64
	// first and last are the ends of the ids.
	first, last uint64
	// ids, runs and widest are the numbers of ids, of runs and of ids in the largest run.
	ids    uint64
	widest uint64
	runs   int
	// oldest and newest are the times of the first and the last run.
	oldest, newest int64
	form           []byte
}

const (
	// leafRuns is how many runs are put into one leaf.
	leafRuns = 256
	// leafSize is the memory of a leaf besides its form.
	leafSize = 104
	// minRun is the least bytes of a run, which bounds what a count may claim.
	minRun = 3

	ledgerVersion = 1
	ledgerSum     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newLeaf makes the leaf of list, which must not be empty, using scratch to encode.
//
// The form is, with integers as varints of encoding/binary (u unsigned, i signed):
//
//	version    1 byte, 1
//	missed     i, of the first run
//	count      u
//	runs       each: distance u (seen ids since the end of the run before; the first id itself for the first),
//	           length u (last less first), later u (microseconds since the time of the run before)
//	checksum   CRC-32C over all before, 4 bytes, little endian
func newLeaf(key uint64, list []run, scratch []byte) (leaf, []byte) {
	n := len(list)
	l := leaf{key: key, first: list[0].first, last: list[n-1].last, runs: n, oldest: list[0].missed, newest: list[n-1].missed}
	b := append(scratch[:0], ledgerVersion)
	b = binary.AppendVarint(b, l.oldest)
	b = binary.AppendUvarint(b, uint64(n))
	next, missed := uint64(0), l.oldest
	for _, r := range list {
		b = binary.AppendUvarint(b, r.first-next)
		b = binary.AppendUvarint(b, r.last-r.first)
		b = binary.AppendUvarint(b, uint64(r.missed-missed))
		next, missed = r.last+1, r.missed
		l.ids += r.ids()
		l.widest = max(l.widest, r.ids())
	}
	b = sum(b)
	l.form = append(make([]byte, 0, len(b)), b...)
	return l, b
}

// sum appends the checksum of b.
func sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// each calls yield for the runs of l in ascending order until it returns false, and reports whether it never did.
func (l *leaf) each(yield func(run) bool) bool {
	b := l.form[1:]
	missed, n := binary.Varint(b)
	b = b[n:]
	_, n = binary.Uvarint(b)
	b = b[n:]
	next := uint64(0)
	for range l.runs {
		distance, n := uvarint(b)
		b = b[n:]
		length, n := uvarint(b)
		b = b[n:]
		later, n := uvarint(b)
		b = b[n:]
		missed += int64(later)
		r := run{first: next + distance, last: next + distance + length, missed: missed}
		next = r.last + 1
		if !yield(r) {
			return false
		}
	}
	return true
}

// uvarint is binary.Uvarint with a short cut for the single byte that most numbers are.
func uvarint(b []byte) (uint64, int) {
	if b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// decode appends the runs of l to dst.
func (l *leaf) decode(dst []run) []run {
	l.each(func(r run) bool {
		dst = append(dst, r)
		return true
	})
	return dst
}

// parseLeaf reads the saved form of the leaf with this key. It keeps b. The error wraps ErrBadLedger. Memory is set aside only in
// proportion to len(b).
func parseLeaf(key uint64, b []byte) (leaf, error) {
	r, err := openForm(b)
	if err != nil {
		return leaf{}, err
	}
	missed := r.micros()
	count := r.count(minRun)
	l := leaf{key: key, runs: count, oldest: missed, form: b}
	next := uint64(0)
	for i := range count {
		distance, length, later := r.uint(), r.uint(), r.uint()
		first := next + distance
		last := first + length
		switch {
		case r.err != nil:
		case i > 0 && next == 0, first < next, last < first, first < key, first == 0:
			r.fail("runs of ids that do not ascend")
		case later > uint64(maxLedgerTime-missed):
			r.fail("a time out of bounds")
		}
		if r.err != nil {
			break
		}
		missed += int64(later)
		if i == 0 {
			l.first, l.oldest = first, missed
		}
		next, l.last, l.newest = last+1, last, missed
		l.ids += length + 1
		l.widest = max(l.widest, length+1)
	}
	if r.err == nil && count == 0 {
		r.fail("no runs")
	}
	return l, r.end()
}

// maxLedgerTime bounds the times of a ledger, in microseconds either side of 1970, so that no sum of them overflows.
const maxLedgerTime = 1 << 60

// form takes numbers off the front of a saved form. After the first error it returns zeros.
type form struct {
	rest []byte
	err  error
}

// openForm checks the version and the checksum of b.
func openForm(b []byte) (*form, error) {
	if len(b) < 1+ledgerSum {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadLedger, len(b))
	}
	body := b[:len(b)-ledgerSum]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return nil, fmt.Errorf("%w: wrong checksum over %d bytes", ErrBadLedger, len(b))
	}
	if body[0] != ledgerVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows %d", ErrBadLedger, body[0], ledgerVersion)
	}
	return &form{rest: body[1:]}, nil
}

func (f *form) fail(text string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s", ErrBadLedger, text)
	}
	f.rest = nil
}

// end returns the first error; bytes that are left over are one.
func (f *form) end() error {
	if len(f.rest) > 0 {
		f.fail("bytes follow its end")
	}
	return f.err
}

func (f *form) uint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.fail("a number is cut off or too large")
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// micros returns a time in bounds.
func (f *form) micros() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 || v < -maxLedgerTime || v > maxLedgerTime {
		f.fail("a time is cut off or out of bounds")
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// count returns a number of things that take at least size bytes each.
func (f *form) count(size int) int {
	n := f.uint()
	if n > uint64(len(f.rest)/size) {
		f.fail("a count is larger than what is there")
		return 0
	}
	return int(n)
}
