package bolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"bridge/checkpoint"
)

const sealSize = 4

// paths holds memory for the paths of checksums, of which a scan makes millions.
var paths = sync.Pool{New: func() any { return new([]byte) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends to payload the checksum over it and the path where it is stored.
func seal(payload []byte, path ...string) []byte {
	return binary.LittleEndian.AppendUint32(payload, checksum(payload, path))
}

// unseal returns the payload of a value found at path. It shares memory with value.
func unseal(value []byte, path ...string) ([]byte, error) {
	if len(value) < sealSize {
		return nil, fmt.Errorf("the value at %q has only %d bytes: %w", path, len(value), checkpoint.ErrCorrupt)
	}
	payload, sum := value[:len(value)-sealSize], binary.LittleEndian.Uint32(value[len(value)-sealSize:])
	if checksum(payload, path) != sum {
		return nil, fmt.Errorf("the value at %q has a wrong checksum: %w", path, checkpoint.ErrCorrupt)
	}
	return payload, nil
}

func checksum(payload []byte, path []string) uint32 {
	scratch := paths.Get().(*[]byte)
	joined := (*scratch)[:0]
	for _, name := range path {
		joined = binary.AppendUvarint(joined, uint64(len(name)))
		joined = append(joined, name...)
	}
	sum := crc32.Update(crc32.Update(0, castagnoli, joined), castagnoli, payload)
	*scratch = joined
	paths.Put(scratch)
	return sum
}
