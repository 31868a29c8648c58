package pebble

import (
	"path/filepath"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/storetest"
)

// openTest opens a store that the test closes at its end, with memtables that tests fill.
func openTest(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{memtable: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.closed.Load() && s.damage.Load() == nil {
			if err := checkIndexes(s); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPebbleIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		path := filepath.Join(t.TempDir(), "store")
		s := openTest(t, path)
		f := storetest.Fixture{Store: s}
		f.Reopen = func() store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, path)
			return s
		}
		return f
	})
}
