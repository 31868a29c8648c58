package pebble

import (
	"encoding/binary"
	"errors"
	"time"

	"bridge/checkpoint/store"
	"bridge/source"
	"bridge/source/ledger"
)

// The first bytes of keys.
const (
	fenceTag    = 'f'
	nameTag     = 'n'
	progressTag = 's'
	partTag     = 'p'
	offsetTag   = 't'
	entryTag    = 'v'
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

// offset returns an offset, which is never negative.
func (r *reader) offset() int64 {
	v := r.uint()
	if v > 1<<63-1 {
		r.fail()
		return 0
	}
	return int64(v)
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

func appendFence(dst []byte, f store.Fence) []byte {
	dst = appendFlag(binary.AppendUvarint(dst, f.Epoch), f.HasProducer)
	return binary.AppendVarint(binary.AppendVarint(dst, f.ProducerID), int64(f.ProducerEpoch))
}

func decodeFence(b []byte) (store.Fence, error) {
	r := reader{rest: b}
	f := store.Fence{Epoch: r.uint(), HasProducer: r.flag(), ProducerID: r.int()}
	epoch := r.int()
	if f.ProducerEpoch = int16(epoch); int64(f.ProducerEpoch) != epoch {
		r.fail()
	}
	return f, r.end()
}

func appendProgress(dst []byte, p *store.Progress) []byte {
	dst = binary.AppendUvarint(dst, p.Position)
	dst = binary.AppendUvarint(dst, p.Reading.Through)
	dst = binary.AppendVarint(dst, p.Reading.At.UnixMicro())
	dst = binary.AppendUvarint(appendText(dst, p.Cursor.Modified), p.Cursor.ID)
	dst = binary.AppendUvarint(appendFlag(dst, p.Started), p.Floor)
	dst = binary.AppendUvarint(dst, p.Snapshot.First)
	dst = binary.AppendUvarint(dst, p.Snapshot.Last-p.Snapshot.First)
	dst = binary.AppendUvarint(dst, p.Epoch)
	dst = binary.AppendUvarint(dst, p.Seq)
	return binary.AppendVarint(dst, p.Saved.UnixMicro())
}

func decodeProgress(b []byte) (store.Progress, error) {
	r := reader{rest: b}
	p := store.Progress{
		Position: r.uint(),
		Reading:  ledger.Reading{Through: r.uint(), At: r.time()},
		Cursor:   source.Cursor{Modified: r.text(), ID: r.uint()},
		Started:  r.flag(),
		Floor:    r.uint(),
	}
	p.Snapshot.First = r.uint()
	if p.Snapshot.Last = p.Snapshot.First + r.uint(); p.Snapshot.Last < p.Snapshot.First {
		r.fail()
	}
	p.Epoch, p.Seq, p.Saved = r.uint(), r.uint(), r.time()
	return p, r.end()
}

func appendOffset(dst []byte, o store.Offset) []byte {
	dst = binary.AppendUvarint(binary.AppendVarint(dst, o.Covered), uint64(o.Anchor.Offset))
	return binary.AppendUvarint(binary.AppendUvarint(dst, o.Anchor.Epoch), o.Anchor.Seq)
}

func decodeOffset(b []byte) (store.Offset, error) {
	r := reader{rest: b}
	o := store.Offset{Covered: r.int(), Anchor: store.Anchor{Offset: r.offset(), Epoch: r.uint(), Seq: r.uint()}}
	if o.Covered < -1 {
		r.fail()
	}
	return o, r.end()
}
