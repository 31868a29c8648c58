package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"bridge/source"
)

// Every form begins with a byte that is its version and ends with a checksum over all before, 4
// bytes, little endian.
const checksumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	minMicros = time.Time{}.UnixMicro()
	maxMicros = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1
)

func plausible(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendRange(dst []byte, r source.Range) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, r.First), r.Last-r.First)
}

// appendChecksum ends the form that begins at start.
func appendChecksum(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// open checks version and checksum of the form b and returns the version and a reader of what is
// between them.
func open(what string, b []byte, newest byte) (version byte, r reader, err error) {
	if len(b) < 1+checksumSize {
		return 0, r, fmt.Errorf("%s of %d bytes: %w", what, len(b), ErrCorrupt)
	}
	body, sum := b[:len(b)-checksumSize], binary.LittleEndian.Uint32(b[len(b)-checksumSize:])
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, r, fmt.Errorf("%s of %d bytes has a wrong checksum: %w", what, len(b), ErrCorrupt)
	}
	switch v := body[0]; {
	case v > newest:
		return 0, r, fmt.Errorf("%s of version %d, this program knows up to %d: %w", what, v, newest, ErrNewer)
	case v == 0:
		return 0, r, fmt.Errorf("%s of version 0: %w", what, ErrCorrupt)
	}
	return body[0], reader{rest: body[1:]}, nil
}

// close returns what was wrong with the form b that r has read.
func (r *reader) close(what string, b []byte) error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("bytes follow its end")
	}
	if r.err != nil {
		return fmt.Errorf("%s of %d bytes: %w: %w", what, len(b), r.err, ErrCorrupt)
	}
	return nil
}

// reader takes values off the front of rest. After the first error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = errors.New(text)
	}
	r.rest = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number is cut off or too large")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// micros returns base plus a difference, if that is a plausible time.
func (r *reader) micros(base int64) int64 {
	d, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("a time is cut off or too large")
		return 0
	}
	r.rest = r.rest[n:]
	// Two plausible times differ by less than 2^59, so that neither sum overflows.
	if d < -(1<<60) || d > 1<<60 || base+d < minMicros || base+d > maxMicros {
		r.fail("a time is outside the years 1 to 9999")
		return 0
	}
	return base + d
}

// count returns a number of things that take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.rest)/size) {
		r.fail("a count is larger than what is there")
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.count(1)
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// bytes returns size bytes, which share memory with the form.
func (r *reader) bytes(size int) []byte {
	if size > len(r.rest) {
		r.fail("it is cut off")
		return nil
	}
	b := r.rest[:size]
	r.rest = r.rest[size:]
	return b
}

// copied returns bytes of a length that comes first; nil for none.
func (r *reader) copied() []byte { return append([]byte(nil), r.bytes(r.count(1))...) }

// time returns a time to the microsecond, in UTC.
func (r *reader) time() time.Time { return time.UnixMicro(r.micros(0)).UTC() }

// idRange returns a range of ids.
func (r *reader) idRange() source.Range {
	first, length := r.uint(), r.uint()
	if first+length < first {
		r.fail("a range of ids ends beyond the last id")
		return source.Range{}
	}
	return source.Range{First: first, Last: first + length}
}

// idRanges returns a number of ranges of ids and them.
func (r *reader) idRanges() []source.Range {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	ranges := make([]source.Range, 0, n)
	for range n {
		ranges = append(ranges, r.idRange())
	}
	return ranges
}

// flag returns a byte that is 0 or 1.
func (r *reader) flag() bool {
	b := r.bytes(1)
	if len(b) == 1 && b[0] > 1 {
		r.fail("a flag is neither 0 nor 1")
	}
	return len(b) == 1 && b[0] == 1
}
