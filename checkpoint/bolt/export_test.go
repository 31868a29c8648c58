package bolt

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Seal is seal, for tests that write files of their own.
func Seal(payload []byte, path ...string) []byte { return seal(payload, path...) }

// Checksummed ends body with the checksum of a state.
func Checksummed(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}

// Verify is verify.
func Verify(file io.ReaderAt, size int64, visit func(path []string, value []byte) error) error {
	return verify(file, size, visit)
}

// Check is check.
func Check(file io.ReaderAt, size int64) error { return check(file, size) }

// AfterFailure is what Save does when a transaction failed at its end.
func (s *Store) AfterFailure(txid int, err error) error { return s.afterFailure(txid, err) }
