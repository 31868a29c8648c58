package bolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"bridge/checkpoint"
)

const sealSize = 4

// paths holds memory for the paths of checksums, of which a scan makes millions.
var paths = sync.Pool{New: func() any { return new([]byte) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends to payload the checksum over it and the path where it is stored.
func seal(payload []byte, path ...string) []byte {
	return sealNamed(payload, nil, path...)
}

// sealNamed is seal for a value with a name below path; nil is none.
func sealNamed(payload, name []byte, path ...string) []byte {
	return binary.LittleEndian.AppendUint32(payload, checksum(payload, name, path))
}

// unseal returns the payload of a value found at path. It shares memory with value.
func unseal(value []byte, path ...string) ([]byte, error) { return unsealNamed(value, nil, path...) }

// unsealNamed is unseal for a value with a name below path; nil is none.
func unsealNamed(value, name []byte, path ...string) ([]byte, error) {
	if len(value) < sealSize {
		return nil, fmt.Errorf("the value at %q has only %d bytes: %w", whole(name, path), len(value), checkpoint.ErrCorrupt)
	}
	payload, sum := value[:len(value)-sealSize], binary.LittleEndian.Uint32(value[len(value)-sealSize:])
	if checksum(payload, name, path) != sum {
		return nil, fmt.Errorf("the value at %q has a wrong checksum: %w", whole(name, path), checkpoint.ErrCorrupt)
	}
	return payload, nil
}

// whole returns path with the name, for errors. It copies both, so that they cost no allocation where there is none.
func whole(name []byte, path []string) []string {
	path = slices.Clone(path)
	if name != nil {
		path = append(path, string(name))
	}
	return path
}

// checksum is that over payload and the path where it is stored, of which name, when not nil, is the last.
func checksum(payload, name []byte, path []string) uint32 {
	scratch := paths.Get().(*[]byte)
	joined := (*scratch)[:0]
	for _, part := range path {
		joined = binary.AppendUvarint(joined, uint64(len(part)))
		joined = append(joined, part...)
	}
	if name != nil {
		joined = append(binary.AppendUvarint(joined, uint64(len(name))), name...)
	}
	sum := crc32.Update(crc32.Update(0, castagnoli, joined), castagnoli, payload)
	*scratch = joined
	paths.Put(scratch)
	return sum
}
