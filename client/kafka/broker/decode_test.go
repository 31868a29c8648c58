package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/bus"
)

// batchesOf returns record batches, or message sets of version 1, as they lie in a log.
func batchesOf(t testing.TB, version int8, attributes protocol.Attributes, base int64, values ...string) []byte {
	t.Helper()
	records := make([]protocol.Record, len(values))
	for i, v := range values {
		records[i] = protocol.Record{Offset: int64(i), Key: protocol.NewBytes([]byte("k")), Value: protocol.NewBytes([]byte(v))}
		if version > 1 {
			records[i].Headers = []protocol.Header{{Key: "h", Value: []byte(v)}}
		}
	}
	set := protocol.RecordSet{Version: version, Attributes: attributes, Records: protocol.NewRecordReader(records...)}
	var out bytes.Buffer
	if _, err := set.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()[4:]
	for at := 0; at < len(b); at += int(binary.BigEndian.Uint32(b[at+8:])) + batchHead {
		// The broker sets offsets; no checksum covers them.
		binary.BigEndian.PutUint64(b[at:], binary.BigEndian.Uint64(b[at:])+uint64(base))
	}
	return b
}

func decoded(batches []byte, from, to int64) (values []string, next int64, err error) {
	d := Decoder{Topic: "t", Next: from, To: to}
	d.Each = func(m *bus.Stored) error {
		values = append(values, fmt.Sprintf("%d %s %s", m.Offset, m.Key, m.Value))
		return nil
	}
	err = d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: batches})
	return values, d.Next, err
}

func TestDecode(t *testing.T) {
	whole := slices.Concat(batchesOf(t, 2, 0, 10, "a", "b", "c"), batchesOf(t, 2, protocol.Gzip, 20, "d"), batchesOf(t, 2, protocol.Control, 21, "marker"))
	t.Run("from the middle of a batch to the middle of another, over a hole", func(t *testing.T) {
		got, next, err := decoded(whole, 11, 21)
		if want := []string{"11 k b", "12 k c", "20 k d"}; err != nil || next != 21 || !slices.Equal(got, want) {
			t.Errorf("got %q, %d, %v, want %q", got, next, err, want)
		}
	})
	t.Run("a control batch is passed over", func(t *testing.T) {
		if got, next, err := decoded(whole, 21, math.MaxInt64); err != nil || next != 22 || len(got) > 0 {
			t.Errorf("got %q, %d, %v", got, next, err)
		}
		if end := endOf(whole); end != 22 {
			t.Errorf("the answer ends at %d", end)
		}
	})
	t.Run("a batch that is cut off is left for the next answer", func(t *testing.T) {
		got, next, err := decoded(whole[:len(whole)-1], 10, math.MaxInt64)
		if err != nil || next != 21 || len(got) != 4 {
			t.Errorf("got %q, %d, %v", got, next, err)
		}
		if end := endOf(whole[:len(whole)-1]); end != 21 {
			t.Errorf("the answer ends at %d", end)
		}
	})
	t.Run("message sets of before Kafka 0.11 are passed over", func(t *testing.T) {
		old := slices.Concat(batchesOf(t, 1, 0, 5, "a", "b"), batchesOf(t, 2, 0, 7, "c"))
		got, next, err := decoded(old, 6, math.MaxInt64)
		if want := []string{"7 k c"}; err != nil || next != 8 || !slices.Equal(got, want) {
			t.Errorf("got %q, %d, %v, want %q", got, next, err, want)
		}
	})
	t.Run("a byte that has changed is an error", func(t *testing.T) {
		bad := slices.Clone(whole)
		bad[headerBytes+3] ^= 1
		if got, next, err := decoded(bad, 10, math.MaxInt64); !errors.Is(err, errBatch) || next != 10 || len(got) > 0 {
			t.Errorf("got %q, %d, %v", got, next, err)
		}
	})
}

func TestABatchThatInflatesTooFar(t *testing.T) {
	const kept = 1 << 20
	d := Decoder{To: math.MaxInt64, Each: func(*bus.Stored) error { return nil }, kept: kept}
	large := strings.Repeat("a", 2*kept)
	for most, want := range map[int64]bool{2 * kept: false, 4*kept + 100: true} {
		d.Next, d.most = 0, most
		err := d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: batchesOf(t, 2, protocol.Zstd, 7, large)})
		if (err == nil) != want || err != nil && (!errors.Is(err, errBatch) || !strings.Contains(err.Error(), "at offset 7: it has more than")) {
			t.Errorf("bound %d: %v", most, err)
		}
	}
	if err := d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: batchesOf(t, 2, protocol.Zstd, 9, "a")}); err != nil || d.inflated.Cap() > 2*kept {
		t.Errorf("%d bytes are kept, %v", d.inflated.Cap(), err)
	}
}

// FuzzDecode wants no panic, and offsets that ascend within the bounds.
func FuzzDecode(f *testing.F) {
	f.Add(slices.Concat(batchesOf(f, 2, 0, 1, "a", "b"), batchesOf(f, 2, protocol.Lz4, 3, "c")), int64(0), int64(9))
	f.Add(batchesOf(f, 1, 0, 1, "a", "b"), int64(0), int64(9))
	f.Fuzz(func(t *testing.T, batches []byte, from, to int64) {
		if len(batches) >= headerBytes {
			// Most of what is made up would end at the checksum.
			batches = slices.Clone(batches)
			size := min(uint64(binary.BigEndian.Uint32(batches[8:]))+batchHead, uint64(len(batches)))
			if size >= headerBytes {
				sum := crc32.Checksum(batches[attributesAt:size], castagnoli)
				binary.BigEndian.PutUint32(batches[17:], sum)
			}
		}
		last := from - 1
		d := Decoder{Next: from, To: to}
		d.Each = func(m *bus.Stored) error {
			if at := int64(m.Offset); at <= last || at >= to {
				t.Fatalf("offset %d comes after %d, up to %d", at, last, to)
			}
			last = int64(m.Offset)
			return nil
		}
		endOf(batches)
		if err := d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: batches}); err != nil && !errors.Is(err, errBatch) {
			t.Fatal(err)
		}
		if d.Next < from {
			t.Fatalf("next is %d, was %d", d.Next, from)
		}
	})
}

// TestTopicIDs: they are in checkpoints, and as kafka-topics.sh shows them.
func TestTopicIDs(t *testing.T) {
	id := [16]byte{0xfb, 0xff, 15: 1}
	for want, topic := range map[string]kmsg.MetadataResponseTopic{
		"-_8AAAAAAAAAAAAAAAAAAQ": {TopicID: id},
		"":                       {TopicID: id, ErrorCode: int16(kafkago.UnknownTopicOrPartition)},
	} {
		if got := IDOf(&topic); got != want {
			t.Errorf("the id is %q, want %q", got, want)
		}
	}
	if got := IDOf(new(kmsg.MetadataResponseTopic)); got != "" {
		t.Errorf("a topic without an id has %q", got)
	}
}
