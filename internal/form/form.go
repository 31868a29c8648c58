package form

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// SealBytes is the length of what Seal appends.
const SealBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal appends the checksum of b, whose first byte is the version.
func Seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// AppendText appends a text.
func AppendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// AppendUints appends unsigned numbers.
func AppendUints(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// Reader takes numbers and texts off the front of Rest. After the first error it returns zeros.
type Reader struct {
	Rest []byte
	Err  error
}

// Open returns a reader of what is between the version and the checksum of a sealed value.
func Open(b []byte, version byte) Reader {
	end := len(b) - SealBytes
	switch {
	case end < 1:
		return Reader{Err: fmt.Errorf("%d bytes", len(b))}
	case binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli):
		return Reader{Err: fmt.Errorf("wrong checksum over %d bytes", len(b))}
	case b[0] != version:
		return Reader{Err: fmt.Errorf("version %d, this program knows %d", b[0], version)}
	}
	return Reader{Rest: b[1:end]}
}

// Fail notes the first error.
func (r *Reader) Fail(text string) {
	if r.Err == nil {
		r.Err = errors.New(text)
	}
	r.Rest = nil
}

// Uvarint is binary.Uvarint with a short cut for the single byte that most numbers are.
func Uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// Uint reads an unsigned number.
func (r *Reader) Uint() uint64 {
	v, n := Uvarint(r.Rest)
	if n <= 0 {
		r.Fail("a number is cut off or too large")
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail("a number is cut off or too large")
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Count reads how many elements follow, none of which takes less than a byte.
func (r *Reader) Count() uint64 {
	n := r.Uint()
	if n > uint64(len(r.Rest)) {
		r.Fail("a length is larger than what is there")
		return 0
	}
	return n
}

// Bytes reads n bytes, which are a part of the value.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Fail("a length is larger than what is there")
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.Bytes(r.Uint())) }

// End returns the first error, one where bytes are left.
func (r *Reader) End() error {
	if len(r.Rest) > 0 {
		r.Fail("bytes follow its end")
	}
	return r.Err
}
