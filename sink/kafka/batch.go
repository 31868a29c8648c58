package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"sync"

	"example.org/bridge/sink"
)

// maxBatchBytes bounds the records of one batch before compression, but for a single record that is
// larger: with the default max.message.bytes of 1 MiB brokers take it whatever the codec makes of
// it.
const maxBatchBytes = 900 << 10

// maxPooledBytes bounds the buffers that are kept for reuse.
const maxPooledBytes = 4 << 20

// Layout of a record batch (Kafka protocol guide, "Record Batch", magic 2), behind the four bytes
// of its size, which belong to the produce request.
const (
	sizePrefix   = 4
	headerBytes  = 61
	lengthAt     = sizePrefix + 8
	leaderAt     = sizePrefix + 12
	magicAt      = sizePrefix + 16
	crcAt        = sizePrefix + 17
	attributesAt = sizePrefix + 21
	lastDeltaAt  = sizePrefix + 23
	firstTimeAt  = sizePrefix + 27
	maxTimeAt    = sizePrefix + 35
	producerAt   = sizePrefix + 43
	epochAt      = sizePrefix + 51
	sequenceAt   = sizePrefix + 53
	countAt      = sizePrefix + 57
	recordsAt    = sizePrefix + headerBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// records encodes messages as the records of one batch. The zero value is empty; reset empties it
// and keeps its memory.
type records struct {
	// raw is room for the batch header and then the records, uncompressed.
	raw       []byte
	headers   headers
	count     int
	first     int64
	max       int64
	maxRecord int
}

func (r *records) reset() {
	r.raw = append(r.raw[:0], make([]byte, recordsAt)...)
	r.count, r.first, r.max, r.maxRecord = 0, 0, 0, 0
}

// add appends m and reports whether it fits; the first one always does.
func (r *records) add(m *sink.Message) bool {
	stamp := m.Time.UnixMilli()
	first := r.first
	if r.count == 0 {
		first = stamp
	}
	headers := r.headers.of(m)
	size := 1 + varintLen(stamp-first) + varintLen(int64(r.count)) + bytesLen(m.Key) + bytesLen(m.Value) + headers
	whole := varintLen(int64(size)) + size
	if r.count > 0 && len(r.raw)-recordsAt+whole > maxBatchBytes {
		return false
	}
	if r.count == 0 {
		r.first, r.max = stamp, stamp
	}
	b := slices.Grow(r.raw, whole)
	b = binary.AppendVarint(b, int64(size))
	b = append(b, 0) // attributes of a record: none are defined
	b = binary.AppendVarint(b, stamp-first)
	b = binary.AppendVarint(b, int64(r.count))
	b = appendBytes(b, m.Key)
	b = appendBytes(b, m.Value)
	r.raw = r.headers.append(b, m)
	r.max = max(r.max, stamp)
	r.maxRecord = max(r.maxRecord, whole)
	r.count++
	return true
}

// addPair appends both messages or none, and returns how many; of two that no batch has room for,
// the first.
func (r *records) addPair(a, b *sink.Message) int {
	size, count, first, last, largest := len(r.raw), r.count, r.first, r.max, r.maxRecord
	switch {
	case !r.add(a):
		return 0
	case r.add(b):
		return 2
	case count == 0:
		return 1
	}
	r.raw, r.count, r.first, r.max, r.maxRecord = r.raw[:size], count, first, last, largest
	return 0
}

// seal appends to dst the batch with its size in front, complete but for the producer's identity
// and the checksum, which stamp sets. Without compression it is the memory of r itself.
func (r *records) seal(dst []byte, c codec) ([]byte, error) {
	if c.append == nil {
		dst = r.raw
	} else {
		var err error
		if dst, err = c.append(append(dst[:0], r.raw[:recordsAt]...), r.raw[recordsAt:]); err != nil {
			return dst, err
		}
	}
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-sizePrefix))
	binary.BigEndian.PutUint64(dst[sizePrefix:], 0) // base offset: the broker's to set
	binary.BigEndian.PutUint32(dst[lengthAt:], uint32(len(dst)-lengthAt-4))
	binary.BigEndian.PutUint32(dst[leaderAt:], math.MaxUint32) // leader epoch -1: unknown
	dst[magicAt] = 2
	binary.BigEndian.PutUint16(dst[attributesAt:], uint16(c.id)) // timestamps of creation
	binary.BigEndian.PutUint32(dst[lastDeltaAt:], uint32(r.count-1))
	binary.BigEndian.PutUint64(dst[firstTimeAt:], uint64(r.first))
	binary.BigEndian.PutUint64(dst[maxTimeAt:], uint64(r.max))
	binary.BigEndian.PutUint32(dst[countAt:], uint32(r.count))
	return dst, nil
}

// stamp sets the producer's identity and the checksum of a sealed batch.
func stamp(sealed []byte, id identity) {
	binary.BigEndian.PutUint64(sealed[producerAt:], uint64(id.producer))
	binary.BigEndian.PutUint16(sealed[epochAt:], uint16(id.epoch))
	binary.BigEndian.PutUint32(sealed[sequenceAt:], uint32(id.sequence))
	binary.BigEndian.PutUint32(sealed[crcAt:], crc32.Checksum(sealed[attributesAt:], castagnoli))
}

// appendBytes writes nil as null.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func bytesLen(v []byte) int {
	if v == nil {
		return 1
	}
	return varintLen(int64(len(v))) + len(v)
}

func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// buffers are the memory of a batch on its way.
type buffers struct {
	records records
	sealed  []byte
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

func (b *buffers) release() {
	if cap(b.records.raw) <= maxPooledBytes && cap(b.sealed) <= maxPooledBytes {
		bufferPool.Put(b)
	}
}

// headers encodes the headers of one message after the other. All but three are most often those of
// the message before, and are encoded once for all of these. The zero value is ready for use.
type headers struct {
	texts sink.Headers
	// last is the message that common was made of: all headers but for the values of its id, its
	// row and its state, which belong where atID and atRow say, and behind all.
	last        sink.Message
	common      []byte
	atID, atRow int
	// null and first are of last, too: it has no value, it is the first message of its batch in its
	// partition.
	null, first bool
	// each is how many headers last has without those in bare.
	each int64
	// row is the value of the row's id, in digits, state that of sink.HeaderState.
	row    []byte
	digits [20]byte
	state  []byte
	// bare are the headers behind the state, count how many all are.
	bare  []byte
	count int64
}

// of takes over the headers of m, for append, and returns how many bytes they are.
func (h *headers) of(m *sink.Message) int {
	l := &h.last
	if h.common == nil || m.Type != l.Type || m.Version != l.Version || m.Schema != l.Schema || m.Domain != l.Domain || m.Stream != l.Stream || m.Shard != l.Shard ||
		m.Origin != l.Origin || m.Format != l.Format || !m.Time.Equal(l.Time) || (m.Value == nil) != h.null || m.IsFirst() != h.first || m.Server != l.Server {
		h.renew(m)
	}
	h.row = strconv.AppendUint(h.digits[:0], m.RowID, 10)
	h.state = m.AppendState(h.state[:0], false)
	h.count, h.bare = h.each, h.bare[:0]
	if m.Form != 0 {
		h.addText(sink.HeaderForm)
		var text [16]byte
		h.addText(string(m.AppendForm(text[:0])))
		h.count++
	}
	if m.TraceParent != "" {
		h.addText(sink.HeaderTraceParent)
		h.addText(m.TraceParent)
		h.count++
	}
	if m.Bare != nil {
		h.addBare(m.Bare)
	}
	return varintLen(h.count) + len(h.common) + textLen(len(m.ID)) + textLen(len(h.row)) + textLen(len(h.state)) + len(h.bare)
}

// addBare adds the headers that say what a value does not.
func (h *headers) addBare(b *sink.Bare) {
	h.addText(sink.HeaderTime)
	var digits [20]byte
	h.addText(string(strconv.AppendInt(digits[:0], b.Time, 10)))
	h.count++
	for _, one := range [...][2]string{{sink.HeaderPrevious, b.Previous}, {sink.HeaderReason, b.Reason}} {
		if one[1] != "" {
			h.addText(one[0])
			h.addText(one[1])
			h.count++
		}
	}
}

func (h *headers) addText(text string) {
	h.bare = append(binary.AppendVarint(h.bare, int64(len(text))), text...)
}

// textLen is the size of a text of n bytes with its length.
func textLen(n int) int { return varintLen(int64(n)) + n }

func (h *headers) renew(m *sink.Message) {
	h.last = sink.Message{Type: m.Type, Version: m.Version, Schema: m.Schema, Domain: m.Domain, Stream: m.Stream, Shard: m.Shard, Origin: m.Origin, Format: m.Format, Time: m.Time, Server: m.Server}
	h.null, h.first, h.each = m.Value == nil, m.IsFirst(), 0
	b := h.common[:0]
	plain := *m
	plain.Bare, plain.TraceParent, plain.Form = nil, "", 0
	h.texts.Each(&plain, func(name, value string) {
		h.each++
		b = append(binary.AppendVarint(b, int64(len(name))), name...)
		switch name {
		case sink.HeaderID:
			h.atID = len(b)
		case sink.HeaderRowID:
			h.atRow = len(b)
		case sink.HeaderState:
		default:
			b = append(binary.AppendVarint(b, int64(len(value))), value...)
		}
	})
	h.common = b
}

// append appends the headers of m, which were given to of just before. The row's id comes after
// the event's, the state is the last of those that every message has.
func (h *headers) append(b []byte, m *sink.Message) []byte {
	b = append(binary.AppendVarint(b, h.count), h.common[:h.atID]...)
	b = append(binary.AppendVarint(b, int64(len(m.ID))), m.ID...)
	b = append(b, h.common[h.atID:h.atRow]...)
	b = append(binary.AppendVarint(b, int64(len(h.row))), h.row...)
	b = append(b, h.common[h.atRow:]...)
	b = append(binary.AppendVarint(b, int64(len(h.state))), h.state...)
	return append(b, h.bare...)
}
