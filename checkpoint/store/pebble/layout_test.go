package pebble

import (
	"bytes"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/storetest"
)

// decoders decode a value and encode it again.
var decoders = []struct {
	name   string
	recode func(b []byte) ([]byte, error)
}{
	{"epoch", func(b []byte) ([]byte, error) { e, err := decodeEpoch(b); return appendEpoch(nil, e), err }},
	{"progress", func(b []byte) ([]byte, error) { p, err := decodeProgress(b); return appendProgress(nil, &p), err }},
	{"registration", func(b []byte) ([]byte, error) {
		r, err := decodeRegistration(1, b)
		return appendRegistration(nil, &r), err
	}},
	{"entry", func(b []byte) ([]byte, error) {
		e, shard, err := decodeEntry(location{shard: 1, row: 4}, b)
		return appendEntry(nil, shard, &e), err
	}},
	{"absent entry", func(b []byte) ([]byte, error) {
		e, shard, err := decodeEntry(location{absent: true, row: 1 << 36}, b)
		return appendEntry(nil, shard, &e), err
	}},
	{"locations", func(b []byte) ([]byte, error) { p, err := decodeLocations(nil, b); return appendLocations(nil, p), err }},
	{"stream", func(b []byte) ([]byte, error) { n, err := decodeName(streamName, b); return appendName(nil, n), err }},
	{"shard", func(b []byte) ([]byte, error) { n, err := decodeName(shardName, b); return appendName(nil, n), err }},
}

// samples are values of each decoder.
func samples() [][]byte {
	p, zero := storetest.Progress(7), store.Progress{}
	live, absent, r := storetest.Entry(4), storetest.Entry(2), storetest.Registration(1)
	absent.At.Offset = store.BeforeFirst
	return [][]byte{
		appendEpoch(nil, 1<<63), appendEpoch(nil, 1),
		appendProgress(nil, &p), appendProgress(nil, &zero),
		appendRegistration(nil, &r), appendRegistration(nil, &store.Registration{Stream: "s", TP: "t"}),
		appendEntry(nil, 1, &live), appendEntry(nil, 1<<32-1, &absent),
		appendLocations(nil, []location{{absent: true, row: 1 << 36}}), appendLocations(nil, []location{{shard: 1<<32 - 1, row: 1<<64 - 1}}),
		appendName(nil, name{streamName, "orders", ""}), appendName(nil, name{shardName, "db.orders", "orders"}),
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range samples() {
		for i := range decoders {
			f.Add(byte(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		d := decoders[int(which)%len(decoders)]
		once, err := d.recode(b)
		if err != nil {
			return
		}
		twice, err := d.recode(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s %x becomes %x and then %x, %v", d.name, b, once, twice, err)
		}
	})
}

func TestAValueThatIsCutOffOrTooLongIsRefused(t *testing.T) {
	for i, d := range []int{0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 7} {
		b, recode := samples()[i], decoders[d].recode
		if again, err := recode(b); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s: %x becomes %x, %v", decoders[d].name, b, again, err)
		}
		for n := range b {
			if _, err := recode(b[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are accepted", decoders[d].name, n, len(b))
			}
		}
		if _, err := recode(append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: a byte too many is accepted", decoders[d].name)
		}
	}
}

func TestAnEntryIsSmall(t *testing.T) {
	e := storetest.Entry(4)
	e.Row, e.At.Offset, e.Seq, e.Epoch = 10_000_000, 10_000_000, 10_000_000, uint64(time.Now().UnixMilli())
	if n := len(appendEntry(nil, 15, &e)); n > 48 {
		t.Errorf("an entry has %d bytes", n)
	}
}

func FuzzAfter(f *testing.F) {
	f.Add([]byte("v\x00\x00\x00\x01"), []byte("a"))
	f.Add([]byte("v\x00\x00\x00\xff"), []byte{0xff})
	f.Fuzz(func(t *testing.T, prefix, rest []byte) {
		if len(prefix) == 0 || prefix[0] == 0xff {
			return
		}
		end := after(prefix)
		if bytes.Compare(append(bytes.Clone(prefix), rest...), end) >= 0 || bytes.HasPrefix(end, prefix) {
			t.Fatalf("behind %x is %x", prefix, end)
		}
	})
}
