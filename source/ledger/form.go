package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is returned when the saved form of a ledger is damaged, incomplete or does not fit the
// position. Test with errors.Is.
var ErrDamaged = errors.New("gap ledger is damaged")

const (
	// ledgerVersion is what is written and read.
	ledgerVersion = 2
	ledgerSum     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum appends the checksum of b.
func sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// maxLedgerTime bounds the times of a ledger, in microseconds either side of 1970, so that no sum
// of them overflows.
const maxLedgerTime = 1 << 60

// form takes numbers off the front of a saved form. After the first error it returns zeros.
type form struct {
	rest []byte
	err  error
}

// openForm checks the version and the checksum of b.
func openForm(b []byte) (*form, error) {
	if len(b) < 1+ledgerSum {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(b))
	}
	body := b[:len(b)-ledgerSum]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return nil, fmt.Errorf("%w: wrong checksum over %d bytes", ErrDamaged, len(b))
	}
	if body[0] != ledgerVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows %d", ErrDamaged, body[0], ledgerVersion)
	}
	return &form{rest: body[1:]}, nil
}

func (f *form) fail(text string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s", ErrDamaged, text)
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

func (f *form) byte() byte {
	if len(f.rest) == 0 {
		f.fail("it is cut off")
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
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

// section returns a form of its own over bytes whose number comes first.
func (f *form) section() form {
	n := f.count(1)
	s := form{rest: f.rest[:n]}
	f.rest = f.rest[n:]
	return s
}
