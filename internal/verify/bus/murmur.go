package bus

import (
	"encoding/binary"
	"strconv"
	"strings"

	"bridge/sink"
)

// murmur2 is the hash by which Java's producer chooses the partition of a key: MurmurHash 2.0 with
// the seed 0x9747b28c.
func murmur2(key []byte) uint32 {
	const m, r, seed = 0x5bd1e995, 24, 0x9747b28c
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		h = h*m ^ (k^k>>r)*m
	}
	if len(key) > 0 {
		var last [4]byte
		copy(last[:], key)
		h = (h ^ binary.LittleEndian.Uint32(last[:])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// numberOf returns the number of a topic-partition, whose name is "topic/3".
func numberOf(tp *sink.TP) int {
	n, _ := strconv.Atoi(tp.Name[strings.LastIndexByte(tp.Name, '/')+1:]) // 0 for a stream
	return n
}
