package bolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"bridge/checkpoint"
)

const sealSize = 4

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
	var buf [binary.MaxVarintLen64]byte
	sum := uint32(0)
	for _, name := range path {
		sum = crc32.Update(sum, castagnoli, buf[:binary.PutUvarint(buf[:], uint64(len(name)))])
		sum = crc32.Update(sum, castagnoli, []byte(name))
	}
	return crc32.Update(sum, castagnoli, payload)
}
