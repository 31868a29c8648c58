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

// appendEntry appends an entry without what its key has: the shard and row or, of an absent one,
// the time.
func appendEntry(dst []byte, shard uint32, e *store.Entry) []byte {
	dst = appendState(dst, e)
	if e.State == store.Absent {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(shard)), e.Row)
	} else {
		dst = append(dst, e.Digest[:]...)
	}
	dst = append(dst, e.Event[:]...)
	dst = binary.AppendUvarint(dst, uint64(e.At.TP))
	// BeforeFirst becomes 0, and is short.
	dst = binary.AppendUvarint(dst, e.At.Offset+1)
	dst = binary.AppendUvarint(dst, e.Epoch)
	return binary.AppendUvarint(dst, e.Seq)
}

// decodeEntry returns the entry at a location, and the number of its shard in place of the name.
func decodeEntry(at location, b []byte) (e store.Entry, shard uint32, err error) {
	r := reader{rest: b}
	r.state(&e)
	if at.absent != (e.State == store.Absent) {
		r.fail()
	}
	shard, e.Row = at.shard, at.row
	if at.absent {
		if at.row > maxSecond-minSecond {
			r.fail()
		}
		e.Since = time.Unix(int64(at.row)+minSecond, 0).UTC()
		shard, e.Row = r.number(), r.uint()
	} else {
		copy(e.Digest[:], r.bytes(16))
	}
	copy(e.Event[:], r.bytes(16))
	e.At = store.At{TP: r.number(), Offset: r.uint() - 1}
	e.Epoch, e.Seq = r.uint(), r.uint()
	return e, shard, r.end()
}
