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

// OpenFolding opens a store that folds what is recent after this many entities, in steps of this many operations.
func OpenFolding(path string, entries, step int) (*Store, error) {
	return open(path, Options{}, bounds{entries: entries, bytes: 1 << 20, step: step, pages: 5})
}

// HashLike makes hashes of entities collide: only the last bit of the length is left.
func (s *Store) HashLike() {
	s.overlay.hash = func(entity []byte) uint64 { return uint64(len(entity) & 1) }
}

// Recent returns how many entities the overlay has, and whether a fold is under way.
func (s *Store) Recent() (entities int, folding bool) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.overlay.entries, s.fold != nil
}

// Verify is verify.
func Verify(file io.ReaderAt, size int64, visit func(path []string, value []byte) error) error {
	return verify(file, size, visit)
}

// Check is check.
func Check(file io.ReaderAt, size int64) error { return check(file, size) }

// AfterFailure is what Save does when a transaction failed at its end.
func (s *Store) AfterFailure(txid int, err error) error { return s.afterFailure(txid, err) }
