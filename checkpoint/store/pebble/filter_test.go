package pebble

import (
	"fmt"
	"path/filepath"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/storetest"
)

func TestAFilterLacksNoHashThatWasAdded(t *testing.T) {
	f := newFilter()
	const size = 200_000
	missed := 0
	for n := range size {
		stream := uint32(n % 3)
		if !f.lacks(stream, hashOf(fmt.Append(nil, "unknown ", n))) {
			missed++
		}
		hash := hashOf(fmt.Append(nil, "known ", n))
		if f.add(stream, hash) {
			t.Fatalf("full after %d hashes", n)
		}
		if f.lacks(stream, hash) {
			t.Fatalf("hash %d is missing", n)
		}
	}
	if missed > size/1000 {
		t.Errorf("%d of %d hashes that were not added are not missing", missed, size)
	}
}

func TestOnlyANewStoreHasAFilterUntilItIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	for n := range uint64(20) {
		if n == 10 {
			s.fresh.Load().added = maxFiltered
		}
		if got := s.fresh.Load() != nil; got != (n < 11) {
			t.Fatalf("before batch %d there is a filter: %v", n, got)
		}
		if err := s.Apply(t.Context(), storetest.CrashBatch(1+n, 1000)); err != nil {
			t.Fatal(err)
		}
		if got, err := storetest.Prefix(s, 1000); err != nil {
			t.Fatalf("%d batches: %v", got, err)
		}
	}
	change := store.Change{Entity: []byte("a"), Entry: store.Entry{Shard: "db.orders", Row: 1, State: store.Live}}
	if err := s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{change}}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.Lookup(t.Context(), "orders", store.Asks(change.Entity), nil)
		if err != nil || got[0] != change.Entry || s.fresh.Load() != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, path)
	}
}
