package store

import (
	"encoding/binary"
	"hash/crc32"
)

// formSum is the length of the checksum at the end of a form.
const formSum = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// form writes and reads the bytes of a part: a version (1 byte), numbers as varints and texts with
// their length before them, and the CRC-32C over all before (4 bytes, little endian).
type form struct {
	bytes []byte
	start int
	// bad says that what was read is not there.
	bad bool
}

func newForm(dst []byte, version byte) *form {
	return &form{bytes: append(dst, version), start: len(dst)}
}

func (f *form) put(n uint64) { f.bytes = binary.AppendUvarint(f.bytes, n) }

func (f *form) putText(s string) { f.put(uint64(len(s))); f.bytes = append(f.bytes, s...) }

func (f *form) end() []byte {
	return binary.LittleEndian.AppendUint32(f.bytes, crc32.Checksum(f.bytes[f.start:], castagnoli))
}

// parseForm returns what is between version and checksum.
func parseForm(b []byte, version byte) *form {
	end := len(b) - formSum
	if end < 1 || b[0] != version || binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return &form{bad: true}
	}
	return &form{bytes: b[1:end]}
}

func (f *form) number() uint64 {
	n, size := binary.Uvarint(f.bytes)
	if f.bad = f.bad || size <= 0; f.bad {
		return 0
	}
	f.bytes = f.bytes[size:]
	return n
}

// count reads how many of something follow. None takes less than a byte.
func (f *form) count() uint64 {
	n := f.number()
	if f.bad = f.bad || n > uint64(len(f.bytes)); f.bad {
		return 0
	}
	return n
}

// next reads n bytes, which are a part of the form.
func (f *form) next(n uint64) []byte {
	if f.bad = f.bad || n > uint64(len(f.bytes)); f.bad {
		return nil
	}
	b := f.bytes[:n]
	f.bytes = f.bytes[n:]
	return b
}

func (f *form) text() string { return string(f.next(f.count())) }

// complete reports whether all was read and all of it was there.
func (f *form) complete() bool { return !f.bad && len(f.bytes) == 0 }
