package pebble

import (
	"cmp"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"bridge/checkpoint/store"
)

// location says where an entry lies: in a row of a shard or, of an absent entity, at a time.
type location struct {
	absent bool
	shard  uint32
	// row is the row, or of an absent entity the seconds since the year 1.
	row uint64
}

// locationOf returns where an entry lies whose shard has a number.
func locationOf(shard uint32, e *store.Entry) location {
	if e.State == store.Absent {
		return location{absent: true, row: second(e.Since)}
	}
	return location{shard: shard, row: e.Row}
}

// compare orders locations by their keys.
func (p location) compare(other location) int {
	switch {
	case p.absent != other.absent && p.absent:
		return -1
	case p.absent != other.absent:
		return 1
	}
	return cmp.Or(cmp.Compare(p.shard, other.shard), cmp.Compare(p.row, other.row))
}

// appendPrefix appends what the keys of the entities in p begin with.
func (p location) appendPrefix(dst []byte, stream uint32) []byte {
	if !p.absent {
		dst = binary.BigEndian.AppendUint32(append(dst, entryTag), p.shard)
		return binary.BigEndian.AppendUint64(dst, p.row)
	}
	dst = binary.BigEndian.AppendUint32(append(dst, absentTag), stream)
	return binary.BigEndian.AppendUint64(dst, p.row)
}

// appendLocations appends the value of a hash.
func appendLocations(dst []byte, locations []location) []byte {
	for _, p := range locations {
		number := uint64(0)
		if !p.absent {
			number = uint64(p.shard) + 1
		}
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, number), p.row)
	}
	return dst
}

// decodeLocations appends to dst what appendLocations wrote, one location at least.
func decodeLocations(dst []location, b []byte) ([]location, error) {
	r := reader{rest: b}
	for ok := true; ok; ok = len(r.rest) > 0 {
		number, row := r.uint(), r.uint()
		if number > 1<<32 {
			r.fail()
		}
		p := location{row: row, absent: number == 0}
		if !p.absent {
			p.shard = uint32(number - 1)
		}
		dst = append(dst, p)
	}
	return dst, r.end()
}

// appendHashKey appends the key of a hash in a stream.
func appendHashKey(dst []byte, stream uint32, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(append(dst, hashTag), stream), hash)
}

// hashOf is the hash by which entities are found.
func hashOf(entity []byte) uint64 { return xxhash.Sum64(entity) }

// split takes the key of an entry apart: its location, and the entity.
func split(key []byte) (at location, entity []byte, err error) {
	if len(key) < 13 {
		return at, nil, errForm
	}
	at.row = binary.BigEndian.Uint64(key[5:])
	if at.absent = key[0] == absentTag; !at.absent {
		at.shard = binary.BigEndian.Uint32(key[1:])
	}
	return at, key[13:], nil
}
