package pebble

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

var decoders = []struct {
	name   string
	recode func(b []byte) ([]byte, error)
}{
	{"epoch", func(b []byte) ([]byte, error) { e, err := decodeEpoch(b); return binary.AppendUvarint(nil, e), err }},
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

func samples() [][]byte {
	p, zero := storetest.Progress(7), store.Progress{}
	live, absent, r := storetest.Entry(4), storetest.Entry(2), storetest.Registration(1)
	absent.At.Offset = store.BeforeFirst
	return [][]byte{
		binary.AppendUvarint(nil, 1<<63), {1},
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

// openTest opens a store that the test closes at its end, with memtables that tests fill.
func openTest(t testing.TB, path string) *Store { return openWith(t, path, nil) }

// openWith is openTest with another hash of entities; nil is the usual one.
func openWith(t testing.TB, path string, hash func([]byte) uint64) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), path, Options{memtable: 256 << 10, hash: hash}))(t)
	t.Cleanup(func() {
		if !s.closed.Load() && s.damage.Load() == nil {
			must.OK(t, checkLocations(s))
		}
		must.OK(t, s.Close())
	})
	return s
}

// fixture returns an empty store of the suite; hash nil is the usual one.
func fixture(t *testing.T, hash func([]byte) uint64) storetest.Fixture {
	path := filepath.Join(t.TempDir(), "store")
	s := openWith(t, path, hash)
	return storetest.Fixture{Store: s, Reopen: func() store.Store {
		t.Helper()
		must.OK(t, s.Close())
		s = openWith(t, path, hash)
		return s
	}}
}

func TestPebbleIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture { return fixture(t, nil) })
}

// TestRandomBatchesDoAsInMemory has some ten entities share each hash.
func TestRandomBatchesDoAsInMemory(t *testing.T) {
	t.Parallel()
	storetest.RunBatches(t, fixture(t, func(entity []byte) uint64 { return hashOf(entity) % 50 }), testall.Cases(30, 120))
}

func TestOnlyANewStoreHasAFilterUntilItIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	for n := range uint64(10) {
		if n == 5 {
			s.fresh.Load().added = maxFiltered
		}
		if got := s.fresh.Load() != nil; got != (n < 6) {
			t.Fatalf("before batch %d there is a filter: %v", n, got)
		}
		must.OK(t, s.Apply(t.Context(), storetest.CrashBatch(1+n, 1000)))
		if got, err := storetest.Prefix(s, 1000); err != nil {
			t.Fatalf("%d batches: %v", got, err)
		}
	}
	change := store.Change{Entity: []byte("a"), Entry: store.Entry{Shard: "db.orders", Row: 1, State: store.Live}}
	must.OK(t, s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{change}}}}))
	for range 2 {
		got, err := s.Lookup(t.Context(), "orders", storetest.Asks(change.Entity), nil)
		if err != nil || got[0] != change.Entry || s.fresh.Load() != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		must.OK(t, s.Close())
		s = openTest(t, path)
	}
}

// TestForgettingGoesOn where the same call has stopped: Pebble steps over what was forgotten.
func TestForgettingGoesOn(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "store"))
	of, since := store.Key{Stream: "orders"}, time.Unix(1, 0).UTC()
	view := store.ViewChange{Stream: "orders"}
	for i := range uint64(30) {
		e := store.Entry{Shard: "orders", Row: i, State: store.Absent, Since: since}
		view.Changes = append(view.Changes, store.Change{Entity: binary.BigEndian.AppendUint64(nil, i), Entry: e})
	}
	must.OK(t, s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{view}}))
	forget := func(want int) *forgotten {
		t.Helper()
		if n := must.Get(s.ForgetAbsent(t.Context(), of, since.Add(time.Hour), 10))(t); n != want {
			t.Fatalf("%d are forgotten, want %d", n, want)
		}
		return s.forgotten.Load()
	}
	first := forget(10)
	if second := forget(10); first == nil || second == nil || bytes.Compare(first.to, second.to) >= 0 {
		t.Fatalf("it goes on at %+v, then %+v", first, second)
	}
	// Behind all that is left.
	s.forgotten.Store(&forgotten{of, since.Add(time.Hour), []byte{absentTag + 1}})
	forget(0)
	forget(10)
}

// TestForgettingLetsOthersApply: many entities of other shards are looked at in parts.
func TestForgettingLetsOthersApply(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "store"))
	since := time.Unix(1, 0).UTC()
	view := store.ViewChange{Stream: "orders"}
	for i := range uint64(2*lookedAt + 10) {
		e := store.Entry{Shard: "others", Row: i, State: store.Absent, Since: since}
		if i >= 2*lookedAt {
			e.Shard = "own"
		}
		view.Changes = append(view.Changes, store.Change{Entity: binary.BigEndian.AppendUint64(nil, i), Entry: e})
	}
	must.OK(t, s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{view}}))
	own := store.Key{Stream: "orders", Shard: "own"}
	if n, next, err := s.forgetSome(own, []byte{absentTag}, []byte{absentTag + 1}, 1); n > 0 || next == nil || err != nil {
		t.Errorf("%d are forgotten up to %x, %v: all was looked at", n, next, err)
	}
	for _, want := range []int{4, 4, 2} {
		if n := must.Get(s.ForgetAbsent(t.Context(), own, since.Add(time.Hour), 4))(t); n != want {
			t.Errorf("%d are forgotten, want %d", n, want)
		}
	}
}
