package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// decode reads a sealed batch with franz-go, which checks its sum, and with the decoder of readers.
func decode(t testing.TB, sealed []byte) (kmsg.RecordBatch, []*kgo.Record, []sink.Stored) {
	t.Helper()
	if n := binary.BigEndian.Uint32(sealed); int(n) != len(sealed)-sizePrefix {
		t.Fatalf("size %d of %d bytes", n, len(sealed)-sizePrefix)
	}
	var header kmsg.RecordBatch
	must.OK(t, header.ReadFrom(sealed[sizePrefix:]))
	answer := &kmsg.FetchResponseTopicPartition{RecordBatches: sealed[sizePrefix:]}
	theirs, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, answer, kgo.DefaultDecompressor(), nil)
	if theirs.Err != nil {
		t.Fatal(theirs.Err)
	}
	var ours []sink.Stored
	d := broker.Decoder{Topic: "t", To: math.MaxInt64, Each: func(m *sink.Stored) error { ours = append(ours, *m); return nil }}
	must.OK(t, d.Decode(answer))
	return header, theirs.Records, ours
}

func FuzzBatchIsReadBack(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "id", int64(1_700_000_000_000), int64(-5), uint64(1), uint16(3))
	f.Add([]byte(nil), []byte(nil), "", int64(0), int64(math.MaxInt32), uint64(math.MaxUint64), uint16(40))
	f.Add([]byte{}, []byte{}, "\xff", int64(-1), int64(0), uint64(0), uint16(1))
	f.Fuzz(func(t *testing.T, key, value []byte, text string, at, step int64, row uint64, count uint16) {
		at, step = at%1e14, step%1e12
		batch := make([]sink.Message, int(count%64)+1)
		for i := range batch {
			batch[i] = sink.Message{
				Key: key, Value: value, ID: text, Type: text, Domain: text, Shard: text, RowID: row + uint64(i), Time: time.UnixMilli(at + step*int64(i%3)),
				State: sink.State{Epoch: uint64(at), Seq: row + uint64(i), Index: uint32(i), Key: text}, Schema: text, Format: sink.Format(i % 4),
			}
			if batch[i].Format >= sink.FormatRow {
				batch[i].Bare = &sink.Bare{Time: at + int64(i), Previous: text, Reason: text[:i%(len(text)+1)], Headers: []sink.Header{{Name: "own", Value: value}}}
			}
		}
		for _, compression := range Compressions {
			c := must.Get(newCodec(compression))(t)
			var r records
			r.reset()
			for i := range batch {
				if !r.add(&batch[i]) {
					batch = batch[:i]
					break
				}
			}
			sealed := must.Get(r.seal(nil, c))(t)
			id := identity{producer: 1 << 40, epoch: 7, sequence: math.MaxInt32}
			stamp(sealed, id)
			header, theirs, ours := decode(t, sealed)
			if header.ProducerID != id.producer || header.ProducerEpoch != id.epoch || header.FirstSequence != id.sequence ||
				header.PartitionLeaderEpoch != -1 || header.Attributes != c.id || int(header.LastOffsetDelta) != len(batch)-1 {
				t.Fatalf("header %+v", header)
			}
			if len(theirs) != len(batch) || len(ours) != len(batch) {
				t.Fatalf("%s: %d and %d of %d messages are read", compression, len(theirs), len(ours), len(batch))
			}
			latest := int64(math.MinInt64)
			for i := range batch {
				m, read := &batch[i], ours[i]
				latest = max(latest, m.Time.UnixMilli())
				var headers []kgo.RecordHeader
				new(sink.Headers).Each(m, func(name, value string) { headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)}) })
				want := kgo.Record{Offset: int64(i), Key: m.Key, Value: m.Value, Headers: headers, Timestamp: m.Time}
				for reader, got := range map[string]kgo.Record{
					"franz-go": {Offset: theirs[i].Offset, Key: theirs[i].Key, Value: theirs[i].Value, Headers: theirs[i].Headers, Timestamp: theirs[i].Timestamp},
					"decoder":  {Offset: int64(read.Offset), Key: read.Key, Value: read.Value, Headers: headers, Timestamp: time.UnixMilli(read.Time)},
				} {
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("%s: message %d is read by %s as %+v, want %+v", compression, i, reader, got, want)
					}
				}
			}
			if header.MaxTimestamp != latest {
				t.Fatalf("latest time %d, want %d", header.MaxTimestamp, latest)
			}
		}
	})
}

func TestIdentity(t *testing.T) {
	for _, test := range []struct{ from, n, want int32 }{
		{0, 1, 1}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32 - 1, 5, 3},
	} {
		if got := (identity{sequence: test.from}).advance(int(test.n)).sequence; got != test.want {
			t.Errorf("sequence %d after %d records is %d, want %d", test.from, test.n, got, test.want)
		}
	}
	next, ok := identity{producer: 5, epoch: 2, sequence: 77}.nextEpoch()
	if want := (identity{producer: 5, epoch: 3}); !ok || next != want {
		t.Errorf("the next epoch begins with %+v, %v", next, ok)
	}
	if _, ok := (identity{epoch: lastEpoch}).nextEpoch(); ok {
		t.Error("the last epoch has one after it")
	}
}

// The hashes are those of Kafka's own test, UtilsTest.testMurmur2.
func TestKeysGoWhereJavaPutsThem(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		for _, n := range []int{1, 2, 8, 50, 1000} {
			r := newRoute(n)
			if got, want := r.worker(&sink.Message{Key: []byte(key)}).partition, (hash&math.MaxInt32)%int32(n); got != want {
				t.Errorf("key %q of %d: partition %d, want %d", key, n, got, want)
			}
		}
	}
	r := newRoute(8)
	if r.worker(&sink.Message{}) != r.worker(&sink.Message{Key: []byte{}}) {
		t.Error("no key and an empty key go to different partitions")
	}
}

func newRoute(n int) route {
	var r route
	for i := range n {
		r.workers, r.partitions = append(r.workers, newWorker(nil, "t", int32(i))), append(r.partitions, i)
	}
	return r
}

// pairsOf returns a portion of messages: v stands for one with a body, t for a tombstone. Keys have
// so many bytes.
func pairsOf(text string, keyBytes func() int) *portion {
	batch := make([]sink.Message, len(text))
	r := &portion{}
	for i := range text {
		batch[i] = sink.Message{Key: bytes.Repeat([]byte("k"), keyBytes()), ID: "id", Value: []byte("{}")}
		if text[i] == 't' {
			batch[i].Value = nil
		}
		r.index = append(r.index, i)
	}
	r.call = newCall(batch)
	return r
}

func (r *portion) fillOne(limit int) *wireBatch {
	f := &wireBatch{buffers: new(buffers)}
	f.buffers.records.reset()
	r.next += f.fill(r, limit)
	f.count = f.buffers.records.count
	return f
}

func TestATombstoneIsInTheBatchOfItsEvent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cuts, rounds := 0, 60
	for range rounds {
		var text strings.Builder
		for range 1 + rng.IntN(30) {
			text.WriteString([]string{"v", "vt"}[rng.IntN(2)])
		}
		all := text.String()
		r := pairsOf(all, func() int { return rng.IntN(300 << 10) })
		for from := 0; r.next < len(all); from = r.next {
			f := r.fillOne(math.MaxInt)
			if f.count != r.next-from || f.count == 0 {
				t.Fatalf("%s: %d records of %d messages", all, f.count, r.next-from)
			}
			if r.next < len(all) {
				cuts++
				if all[r.next] == 't' {
					t.Fatalf("%s is cut at %d", all, r.next)
				}
			}
			if units := strings.Count(all[from:r.next], "v"); f.units != units {
				t.Errorf("%s: %d units, want %d", all[from:r.next], f.units, units)
			}
		}
	}
	if cuts < rounds/3 {
		t.Errorf("%d batches were cut: the test shows too little", cuts)
	}
}

// TestRefusedBatchesAreHalvedBetweenPairs has a broker refuse batches until single records are
// left.
func TestRefusedBatchesAreHalvedBetweenPairs(t *testing.T) {
	for text, want := range map[string]string{"vtvtv": "5 2 1", "vt": "2 1", "v": "1", "vvv": "3 1"} {
		r := pairsOf(text, func() int { return 3 })
		var got []string
		for limit, ok := math.MaxInt, true; ok; {
			r.next = 0
			f := r.fillOne(limit)
			got = append(got, fmt.Sprint(f.count))
			limit, ok = f.halved()
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: batches of %s records, want %s", text, text, want)
		}
	}
	if bolder(0) != 1 || bolder(1) != 2 || bolder(math.MaxInt) < math.MaxInt-1 {
		t.Error("the limit does not rise again")
	}
}
