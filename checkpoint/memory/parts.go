package memory

import (
	"maps"
	"slices"

	"bridge/checkpoint"
	"bridge/source/ledger"
)

// apply saves the changed parts; with replace it drops all others.
func apply(parts map[uint64][]byte, changed []ledger.Chunk, replace bool) {
	if replace {
		clear(parts)
	}
	for _, part := range changed {
		if part.Bytes == nil {
			delete(parts, part.Key)
		} else {
			parts[part.Key] = slices.Clone(part.Bytes)
		}
	}
}

// chunksOf returns copies of all parts in the order of their keys.
func chunksOf(parts map[uint64][]byte) (list []ledger.Chunk) {
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, ledger.Chunk{Key: key, Bytes: slices.Clone(parts[key])})
	}
	return list
}

// meant returns the configuration that the state was made with, nil where none is kept.
func (s *shard) meant() (*checkpoint.Meaning, error) {
	if s.meaning == nil {
		return nil, nil
	}
	return checkpoint.DecodeMeaning(s.meaning)
}
