package pebble

import (
	"encoding/binary"
	"time"

	"bridge/checkpoint/store"
)

// The seconds since 1970 of the years 1 to 9999.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// packed is an entry with numbers in place of names. tp is the number plus 1.
type packed struct {
	entry     store.Entry
	shard, tp uint32
}

func appendEntry(dst []byte, p *packed) []byte {
	e := &p.entry
	dst = append(dst, byte(e.Fate))
	dst = binary.AppendUvarint(dst, uint64(p.shard))
	dst = binary.AppendUvarint(dst, e.Row)
	dst = append(dst, e.Event[:]...)
	if e.Fate == store.Absent {
		dst = binary.AppendVarint(dst, e.Since.Unix())
	} else {
		dst = append(dst, e.Digest[:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(p.tp))
	dst = binary.AppendUvarint(dst, uint64(e.Offset))
	dst = binary.AppendUvarint(dst, e.Epoch)
	return binary.AppendUvarint(dst, e.Seq)
}

func decodeEntry(b []byte) (packed, error) {
	r := reader{rest: b}
	var p packed
	e := &p.entry
	if e.Fate = store.Fate(r.byte()); e.Fate == store.None || e.Fate > store.Absent {
		r.fail()
	}
	p.shard = r.number()
	e.Row = r.uint()
	copy(e.Event[:], r.bytes(16))
	if e.Fate == store.Absent {
		second := r.int()
		if second < minSecond || second > maxSecond {
			r.fail()
		}
		e.Since = time.Unix(second, 0).UTC()
	} else {
		copy(e.Digest[:], r.bytes(16))
	}
	p.tp = r.number()
	e.Offset, e.Epoch, e.Seq = r.offset(), r.uint(), r.uint()
	return p, r.end()
}

// number returns the number of a name.
func (r *reader) number() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}
