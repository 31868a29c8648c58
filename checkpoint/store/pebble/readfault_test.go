package pebble

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/tests/testall"
)

// TestReadFault has a disk on which a read of a file fails now and then: a lookup finds all
// entities or fails, and a batch is applied as a whole or not at all. An entity that is taken for
// unknown would be published as added again.
func TestReadFault(t *testing.T) {
	const size, page = 4_000, 100
	path := filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	entity := func(n int) []byte { return fmt.Appendf(nil, "entity %d", n) }
	row := make([]uint64, size)
	change := func(n int) store.Change {
		return store.Change{Entity: entity(n), Entry: store.Entry{Shard: "db.orders", Row: row[n], State: store.Live}}
	}
	changes := make([]store.Change, size)
	for n := range changes {
		row[n] = uint64(n) + 1
		changes[n] = change(n)
	}
	if err := s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{{Stream: "orders", Changes: changes}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 5))
	// untilFault is how many reads there are until one fails.
	var untilFault atomic.Int32
	faulty := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && untilFault.Add(-1) == 0 {
			return syscall.EIO
		}
		return nil
	}))
	failed := 0
	for round := range testall.Cases(10, 40) {
		// With nothing in its cache.
		s, err := Open(t.Context(), path, Options{fs: faulty, memtable: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		var asks []store.Ask
		moved := store.ViewChange{Stream: "orders"}
		former := map[int]uint64{}
		for i := range page {
			n := random.IntN(size)
			ask := store.Ask{Entity: entity(n)}
			if i%2 == 0 {
				ask.Shard, ask.Row = "db.orders", row[n]
			}
			asks = append(asks, ask)
			if _, ok := former[n]; !ok {
				former[n] = row[n]
				row[n] = uint64(size*(round+1) + i + 1)
				moved.Changes = append(moved.Changes, change(n))
			}
		}
		untilFault.Store(1 + random.Int32N(150))
		got, err := s.Lookup(t.Context(), "orders", asks, nil)
		if err != nil {
			failed++
		}
		for i := range got {
			if got[i].State != store.Live {
				t.Fatalf("round %d: %s is unknown, without an error", round, asks[i].Entity)
			}
		}
		untilFault.Store(1 + random.Int32N(150))
		err = s.Apply(t.Context(), &store.Batch{Views: []store.ViewChange{moved}})
		untilFault.Store(0)
		if err != nil {
			failed++
			for n, r := range former {
				row[n] = r
			}
		}
		for n := range former {
			got, err := s.Lookup(t.Context(), "orders", store.Asks(entity(n)), nil)
			if err != nil || got[0].Row != row[n] {
				t.Fatalf("round %d: entity %d in row %d, not %d: %v", round, n, got[0].Row, row[n], err)
			}
		}
		if err := checkLocations(s); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("no read has failed")
	}
	t.Logf("%d of 80 calls failed", failed)
}
