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

// disputedFlag is added to the state of an entry that is disputed.
const disputedFlag = 0x80

// packed is an entry with a number in place of its shard's name.
type packed struct {
	store.Entry
	shard uint32
}

// appendIndexKey appends the key by which an entry is found without its entity: by row, or of an
// absent one by time.
func appendIndexKey(dst []byte, stream uint32, p *packed, entity []byte) []byte {
	if p.State == store.Absent {
		dst = binary.BigEndian.AppendUint32(append(dst, absentTag), stream)
		dst = binary.BigEndian.AppendUint64(dst, second(p.Since))
	} else {
		dst = binary.BigEndian.AppendUint32(append(dst, rowTag), p.shard)
		dst = binary.BigEndian.AppendUint64(dst, p.Row)
	}
	return append(dst, entity...)
}

// second returns the seconds from the year 1 to t, rounded up, as keys have them.
func second(t time.Time) uint64 {
	return uint64(t.Add(time.Second-1).Unix() - minSecond)
}

// appendState appends the state of an entry, and whether it is disputed.
func appendState(dst []byte, e *store.Entry) []byte {
	if e.Disputed {
		return append(dst, byte(e.State)|disputedFlag)
	}
	return append(dst, byte(e.State))
}

// state reads what appendState wrote.
func (r *reader) state(e *store.Entry) {
	b := r.byte()
	e.State, e.Disputed = store.EntryState(b&^disputedFlag), b&disputedFlag != 0
	if e.State == store.Unknown || e.State > store.Recorded {
		r.fail()
	}
}

// appendByRow appends what a walk by row needs of an entry that is not absent.
func appendByRow(dst []byte, e *store.Entry) []byte {
	return append(binary.AppendUvarint(appendState(dst, e), uint64(e.At.TP)), e.Digest[:]...)
}

// decodeByRow reads what appendByRow wrote.
func decodeByRow(b []byte) (e store.Entry, err error) {
	r := reader{rest: b}
	r.state(&e)
	e.At.TP = r.number()
	copy(e.Digest[:], r.bytes(16))
	return e, r.end()
}

func appendEntry(dst []byte, p *packed) []byte {
	dst = binary.AppendUvarint(appendState(dst, &p.Entry), uint64(p.shard))
	dst = binary.AppendUvarint(dst, p.Row)
	if p.State == store.Absent {
		dst = binary.AppendVarint(dst, p.Since.Unix())
	} else {
		dst = append(dst, p.Digest[:]...)
	}
	dst = append(dst, p.Event[:]...)
	dst = binary.AppendUvarint(dst, uint64(p.At.TP))
	// BeforeFirst becomes 0, and is short.
	dst = binary.AppendUvarint(dst, p.At.Offset+1)
	dst = binary.AppendUvarint(dst, p.Epoch)
	return binary.AppendUvarint(dst, p.Seq)
}

func decodeEntry(b []byte) (packed, error) {
	r := reader{rest: b}
	var p packed
	r.state(&p.Entry)
	p.shard, p.Row = r.number(), r.uint()
	if p.State == store.Absent {
		second := r.int()
		if second < minSecond || second > maxSecond {
			r.fail()
		}
		p.Since = time.Unix(second, 0).UTC()
	} else {
		copy(p.Digest[:], r.bytes(16))
	}
	copy(p.Event[:], r.bytes(16))
	p.At = store.At{TP: r.number(), Offset: r.uint() - 1}
	p.Epoch, p.Seq = r.uint(), r.uint()
	return p, r.end()
}
