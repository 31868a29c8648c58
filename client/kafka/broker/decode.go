package broker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/bus"
)

const (
	// Layout of a record batch (Kafka protocol guide, "Record Batch", magic 2). batchHead is the
	// base offset and the length, which the length does not count.
	batchHead    = 12
	headerBytes  = 61
	lengthAt     = 8
	magicAt      = 16
	attributesAt = 21
	lastDeltaAt  = 23
	// Bits of a batch's attributes.
	codecBits       = 0x07
	appendTimeIs    = 0x08
	transactionalIs = 0x10
	controlIs       = 0x20
	// knownNames bounds the names of headers that are kept, so that each is allocated once, and
	// knownName the length of one.
	knownNames, knownName = 256, 64
	// mostInflated bounds the records of a batch uncompressed.
	mostInflated = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBatch = errors.New("a record batch cannot be read")

// aborted says that what a producer wrote from an offset on, up to its next abort marker, does not
// count.
type aborted = kmsg.FetchResponseTopicPartitionAbortedTransaction

// Decoder hands out the messages of answers, in memory that it uses again.
type Decoder struct {
	Topic    string
	Next, To int64
	Each     func(*bus.Stored) error
	// empty is bus.Span.Empty.
	Empty func(from, to uint64)

	record  kmsg.Record
	message bus.Stored
	names   map[string]string
	// inflated is room for the records of a compressed batch, most bounds them; 0: mostInflated.
	// Of the room, twice kept is kept.
	inflated bytes.Buffer
	most     int64
	kept     int
	// refused is the error of each.
	refused error
}

// Decode hands out the messages of an answer that lie between d.next and d.to, and moves d.next
// behind all that the answer covers. Control batches and aborted transactions are covered, too. An
// error other than d.refused is about the answer; d.next then lies behind what was handed out.
func (d *Decoder) Decode(a *kmsg.FetchResponseTopicPartition) error {
	left, producers := a.AbortedTransactions, []int64(nil)
	slices.SortFunc(left, func(a, b aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	for rest := a.RecordBatches; d.Next < d.To; {
		one, after, err := splitBatch(rest)
		if err != nil || one == nil {
			return err
		}
		rest = after
		if one[magicAt] < 2 {
			// A message set of before Kafka 0.11: it has no headers, so nothing of it is bridge's.
			d.Next = max(d.Next, min(int64(binary.BigEndian.Uint64(one))+1, d.To))
			continue
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(one); err != nil {
			return fmt.Errorf("%w: it has %d bytes: %w", errBatch, len(one), err)
		}
		if b.Magic != 2 {
			return fmt.Errorf("%w: at offset %d, its format is %d", errBatch, b.FirstOffset, b.Magic)
		}
		if sum := crc32.Checksum(one[attributesAt:], castagnoli); sum != uint32(b.CRC) {
			return fmt.Errorf("%w: at offset %d, its checksum is wrong", errBatch, b.FirstOffset)
		}
		for ; len(left) > 0 && left[0].FirstOffset <= lastOf(&b); left = left[1:] {
			if !slices.Contains(producers, left[0].ProducerID) {
				producers = append(producers, left[0].ProducerID)
			}
		}
		switch {
		case b.Attributes&controlIs != 0:
			var end kmsg.ControlRecordKey
			aborts := d.record.UnsafeReadFrom(b.Records) == nil && end.ReadFrom(d.record.Key) == nil && end.Type == kmsg.ControlRecordKeyTypeAbort
			if at := slices.Index(producers, b.ProducerID); at >= 0 && aborts {
				producers = slices.Delete(producers, at, at+1)
			}
			d.without(&b)
		case lastOf(&b) < d.Next:
		case b.Attributes&transactionalIs != 0 && slices.Contains(producers, b.ProducerID):
			d.without(&b)
		default:
			if err := d.records(&b); err != nil {
				return err
			}
		}
		// A batch keeps its last offset when the last records are compacted away.
		d.Next = max(d.Next, min(lastOf(&b)+1, d.To))
	}
	return nil
}

// endOf returns the offset behind the last whole batch of an answer, -1 if there is none.
func endOf(batches []byte) int64 {
	end := int64(-1)
	for one, rest, err := splitBatch(batches); err == nil && one != nil; one, rest, err = splitBatch(rest) {
		end = int64(binary.BigEndian.Uint64(one)) + 1
		if len(one) >= headerBytes && one[magicAt] >= 2 {
			end += int64(int32(binary.BigEndian.Uint32(one[lastDeltaAt:])))
		}
	}
	return end
}

// without notes a batch that holds no messages.
func (d *Decoder) without(b *kmsg.RecordBatch) {
	if from, to := max(b.FirstOffset, d.Next), min(lastOf(b)+1, d.To); d.Empty != nil && from < to {
		d.Empty(uint64(from), uint64(to))
	}
}

// splitBatch returns the first batch of b, nil if that is cut off, as the last one of an answer may
// be.
func splitBatch(b []byte) (one, rest []byte, err error) {
	if len(b) < batchHead {
		return nil, nil, nil
	}
	size := int64(int32(binary.BigEndian.Uint32(b[lengthAt:]))) + batchHead
	if size <= magicAt {
		return nil, nil, fmt.Errorf("%w: its length is %d", errBatch, size)
	}
	if size > int64(len(b)) {
		return nil, nil, nil
	}
	return b[:size], b[size:], nil
}

// lastOf returns the last offset of a batch, also of one whose last records are compacted away.
func lastOf(b *kmsg.RecordBatch) int64 { return b.FirstOffset + int64(b.LastOffsetDelta) }

func (d *Decoder) records(b *kmsg.RecordBatch) error {
	rest, err := d.inflate(b)
	if err != nil {
		return fmt.Errorf("%w: at offset %d: %w", errBatch, b.FirstOffset, err)
	}
	r := &d.record
	for range b.NumRecords {
		size, n := binary.Varint(rest)
		if n <= 0 || size < 0 || size > int64(len(rest)-n) {
			return fmt.Errorf("%w: at offset %d, a record is cut off", errBatch, b.FirstOffset)
		}
		if err := r.UnsafeReadFrom(rest[:n+int(size)]); err != nil {
			return fmt.Errorf("%w: at offset %d: %w", errBatch, b.FirstOffset, err)
		}
		rest = rest[n+int(size):]
		at := b.FirstOffset + int64(r.OffsetDelta)
		switch {
		case at < d.Next:
			continue
		case at >= d.To:
			return nil
		}
		made := b.FirstTimestamp + r.TimestampDelta64
		if b.Attributes&appendTimeIs != 0 {
			made = b.MaxTimestamp
		}
		d.message = bus.Stored{Offset: uint64(at), Destination: d.Topic, Key: r.Key, Value: r.Value, Headers: d.message.Headers[:0], Time: made,
			Transactional: b.Attributes&transactionalIs != 0}
		for _, h := range r.Headers {
			d.message.Headers = append(d.message.Headers, bus.Header{Name: d.name(h.Key), Value: h.Value})
		}
		d.Next = at + 1
		if d.refused = d.Each(&d.message); d.refused != nil {
			return d.refused
		}
	}
	return nil
}

// inflate returns the records of a batch uncompressed, in the memory of the batch or of d.
func (d *Decoder) inflate(b *kmsg.RecordBatch) ([]byte, error) {
	id := b.Attributes & codecBits
	if id == 0 {
		return b.Records, nil
	}
	codec := compress.Compression(id).Codec()
	if codec == nil {
		return nil, fmt.Errorf("unknown compression %d", id)
	}
	from := codec.NewReader(bytes.NewReader(b.Records))
	if d.inflated.Reset(); d.inflated.Cap() > 2*d.kept {
		d.inflated = bytes.Buffer{}
	}
	most := cmp.Or(d.most, mostInflated)
	n, err := d.inflated.ReadFrom(io.LimitReader(from, most+1))
	if n > most {
		err = fmt.Errorf("it has more than %d bytes uncompressed", most)
	}
	return d.inflated.Bytes(), errors.Join(err, from.Close())
}

// name returns the name of a header, which lies in the answer. Most are the same on all messages.
func (d *Decoder) name(read string) string {
	if known, ok := d.names[read]; ok {
		return known
	}
	name := strings.Clone(read)
	if d.names == nil {
		d.names = make(map[string]string)
	}
	if len(d.names) < knownNames && len(name) <= knownName {
		d.names[name] = name
	}
	return name
}
