package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"

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

// transactionalIs is the bit of a batch of a transaction, among its attributes.
const transactionalIs = 0x10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// records encodes messages as the records of one batch. The zero value is empty; reset empties it
// and keeps its memory.
type records struct {
	// raw is room for the batch header and then the records, uncompressed.
	raw []byte
	// texts renders headers, headers are those of one message, encoded.
	texts     sink.Headers
	headers   []byte
	count     int
	first     int64
	max       int64
	maxRecord int
	// earliest is the time of records that are older.
	earliest int64
}

func (r *records) reset() {
	r.raw = append(r.raw[:0], make([]byte, recordsAt)...)
	r.count, r.first, r.max, r.maxRecord, r.earliest = 0, 0, 0, 0, math.MinInt64
}

// add appends m and reports whether it fits; the first one always does.
func (r *records) add(m *sink.Message) bool {
	stamp := max(m.Time.UnixMilli(), r.earliest)
	first := r.first
	if r.count == 0 {
		first = stamp
	}
	h, n := r.headers[:0], int64(0)
	r.texts.Reset()
	r.texts.Each(m, func(name, value string) {
		h = append(binary.AppendVarint(h, int64(len(name))), name...)
		h = append(binary.AppendVarint(h, int64(len(value))), value...)
		n++
	})
	r.headers = h
	size := 1 + varintLen(stamp-first) + varintLen(int64(r.count)) + bytesLen(m.Key) + bytesLen(m.Value) + varintLen(n) + len(h)
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
	b = append(appendLen(b, m.Key), m.Key...)
	b = append(appendLen(b, m.Value), m.Value...)
	r.raw = append(binary.AppendVarint(b, n), h...)
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

func stamp(sealed []byte, id identity) {
	binary.BigEndian.PutUint64(sealed[producerAt:], uint64(id.producer))
	binary.BigEndian.PutUint16(sealed[epochAt:], uint16(id.epoch))
	binary.BigEndian.PutUint32(sealed[sequenceAt:], uint32(id.sequence))
	binary.BigEndian.PutUint32(sealed[crcAt:], crc32.Checksum(sealed[attributesAt:], castagnoli))
}

// appendLen writes the length of v, and nil as null.
func appendLen(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return binary.AppendVarint(b, int64(len(v)))
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

// codec compresses the records of a batch. It is safe for concurrent use.
type codec struct {
	// id is the codec's number in the attributes of a batch; a sink with transactions adds that its
	// batches are of one.
	id int16
	// append adds the compressed form of src to dst; nil leaves records as they are.
	append func(dst, src []byte) ([]byte, error)
}

func newCodec(c Compression) (codec, error) {
	through := func(open func(io.Writer) io.WriteCloser) func(dst, src []byte) ([]byte, error) {
		return func(dst, src []byte) ([]byte, error) {
			out := &appender{dst}
			w := open(out)
			_, err := w.Write(src)
			err = errors.Join(err, w.Close())
			return out.b, err
		}
	}
	switch c {
	case None:
		return codec{}, nil
	case Gzip:
		return codec{1, through(compress.GzipCodec.NewWriter)}, nil
	case Snappy:
		return codec{2, through(compress.SnappyCodec.NewWriter)}, nil
	case LZ4:
		// As Java writes them: independent blocks of 64 KiB without checksums (KIP-57); the batch
		// has its own.
		options := []lz4.Option{lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)}
		pool := sync.Pool{New: func() any { return lz4.NewWriter(nil) }}
		return codec{3, func(dst, src []byte) ([]byte, error) {
			w := pool.Get().(*lz4.Writer)
			defer pool.Put(w)
			defer w.Reset(nil)
			if err := w.Apply(options...); err != nil {
				return dst, err
			}
			return through(func(out io.Writer) io.WriteCloser { w.Reset(out); return w })(dst, src)
		}}, nil
	case Zstd:
		// Two encoders serve all workers; a window of the size of a batch keeps each below 4 MiB.
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return codec{}, fmt.Errorf("kafka: make a zstd encoder: %w", err)
		}
		return codec{4, func(dst, src []byte) ([]byte, error) { return encoder.EncodeAll(src, dst), nil }}, nil
	}
	return codec{}, fmt.Errorf("kafka: unknown compression %q: use one of %q", c, Compressions)
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
