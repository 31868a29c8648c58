package pebble

import (
	"encoding/binary"
	"errors"
	"time"

	"bridge/checkpoint/store"
	"bridge/source"
)

// The first bytes of keys.
const (
	epochTag        = 'e'
	nameTag         = 'n'
	registrationTag = 'r'
	progressTag     = 's'
	partTag         = 'p'
	hashTag         = 'h'
	absentTag       = 'a'
	entryTag        = 'v'
)

// errForm is the cause when a value is not what its key says.
var errForm = errors.New("a value has an unknown form")

func numbered(tag byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tag}, number)
}

func nameKey(kind nameKind, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{nameTag, byte(kind)}, number)
}

func partKey(shard uint32, kind store.Kind, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(numbered(partTag, shard), byte(kind)), number)
}

// after returns the first key behind those that begin with prefix, whose first byte is not 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// A reader takes a value apart. After the first fault it returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() { r.rest, r.failed = nil, true }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail()
	}
	return b == 1
}

func (r *reader) text() string { return string(r.bytes(r.uint())) }

func (r *reader) time() time.Time {
	t := time.UnixMicro(r.int()).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		r.fail()
		return time.Time{}
	}
	return t
}

// number returns a number of 32 bits.
func (r *reader) number() uint32 {
	v := r.uint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// end returns errForm unless all was read and fits.
func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errForm
	}
	return nil
}

func appendFlag(dst []byte, flag bool) []byte {
	if flag {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendEpoch(dst []byte, epoch uint64) []byte { return binary.AppendUvarint(dst, epoch) }

func decodeEpoch(b []byte) (uint64, error) {
	r := reader{rest: b}
	return r.uint(), r.end()
}

func appendProgress(dst []byte, p *store.Progress) []byte {
	dst = binary.AppendUvarint(dst, p.Position)
	dst = binary.AppendUvarint(appendText(dst, p.Cursor.Modified), p.Cursor.ID)
	dst = binary.AppendUvarint(appendFlag(dst, p.Started), p.Floor)
	dst = binary.AppendUvarint(dst, p.Since)
	dst = binary.AppendUvarint(dst, p.Low)
	dst = binary.AppendUvarint(dst, p.Snapshot.First)
	dst = binary.AppendUvarint(dst, p.Snapshot.Last-p.Snapshot.First)
	return appendFlag(binary.AppendVarint(dst, p.Saved.UnixMicro()), p.ReconcileDue)
}

func decodeProgress(b []byte) (store.Progress, error) {
	r := reader{rest: b}
	p := store.Progress{Position: r.uint(), Cursor: source.Cursor{Modified: r.text(), ID: r.uint()}, Started: r.flag(), Floor: r.uint(), Since: r.uint(), Low: r.uint()}
	p.Snapshot.First = r.uint()
	if p.Snapshot.Last = p.Snapshot.First + r.uint(); p.Snapshot.Last < p.Snapshot.First {
		r.fail()
	}
	p.Saved, p.ReconcileDue = r.time(), r.flag()
	return p, r.end()
}

// appendRegistration leaves out the number, which is in the key.
func appendRegistration(dst []byte, g *store.Registration) []byte {
	dst = appendText(appendText(appendText(dst, g.Stream), g.TP), g.Incarnation)
	for _, v := range []uint64{g.Next, g.Last.Offset, g.Last.Hash, g.High.Offset, g.High.Hash, g.Epoch, g.Seen} {
		dst = binary.AppendUvarint(dst, v)
	}
	return appendFlag(appendFlag(dst, g.Late), g.Retired)
}

func decodeRegistration(number uint32, b []byte) (store.Registration, error) {
	r := reader{rest: b}
	g := store.Registration{
		Number: number, Stream: r.text(), TP: r.text(), Incarnation: r.text(), Next: r.uint(),
		Last: store.Anchor{Offset: r.uint(), Hash: r.uint()}, High: store.Anchor{Offset: r.uint(), Hash: r.uint()},
		Epoch: r.uint(), Seen: r.uint(), Late: r.flag(), Retired: r.flag(),
	}
	return g, r.end()
}
