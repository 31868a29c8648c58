package pebble

import (
	"path/filepath"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/storetest"
	"bridge/tests/testall"
)

// openTest opens a store that the test closes at its end, with memtables that tests fill.
func openTest(t testing.TB, path string) *Store { return openWith(t, path, nil) }

// openWith is openTest with another hash of entities; nil is the usual one.
func openWith(t testing.TB, path string, hash func([]byte) uint64) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{memtable: 256 << 10, hash: hash})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.closed.Load() && s.damage.Load() == nil {
			if err := checkLocations(s); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func runSuite(t *testing.T, batches int, hash func([]byte) uint64) {
	storetest.Run(t, batches, func(t *testing.T) storetest.Fixture {
		path := filepath.Join(t.TempDir(), "store")
		s := openWith(t, path, hash)
		f := storetest.Fixture{Store: s}
		f.Reopen = func() store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openWith(t, path, hash)
			return s
		}
		return f
	})
}

func TestPebbleIsAStore(t *testing.T) { runSuite(t, testall.Cases(40, 120), nil) }

func TestEntitiesWithOneHashAreApart(t *testing.T) {
	// Some ten entities of the suite share each hash.
	runSuite(t, testall.Cases(40, 120), func(entity []byte) uint64 { return hashOf(entity) % 50 })
}
