package bolt_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
)

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(path string) (*bolt.Store, error){
		"as it is":                 func(path string) (*bolt.Store, error) { return bolt.Open(path, bolt.Options{}) },
		"folding at every save":    func(path string) (*bolt.Store, error) { return bolt.OpenFolding(path, 0, 1<<20) },
		"folding a little at once": func(path string) (*bolt.Store, error) { return bolt.OpenFolding(path, 40, 30) },
		"folding beside the saves": func(path string) (*bolt.Store, error) {
			s, err := bolt.OpenFolding(path, 60, 30)
			if err == nil {
				s.OnPreparation(func() error { <-time.After(100 * time.Microsecond); return nil })
			}
			return s, err
		},
		"folding, with hashes that collide": func(path string) (*bolt.Store, error) {
			s, err := bolt.OpenFolding(path, 100, 60)
			if err == nil {
				s.HashLike()
			}
			return s, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture { return fixture(t, open) })
		})
	}
}

func fixture(t *testing.T, open func(path string) (*bolt.Store, error)) checkpointtest.Fixture {
	path := filepath.Join(t.TempDir(), "bridge.db")
	again := func(t testing.TB) *bolt.Store {
		s, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mustClose(t, s) })
		return s
	}
	s := again(t)
	return checkpointtest.Fixture{
		Store: s,
		Reopen: func(t testing.TB) checkpoint.Store {
			mustClose(t, s)
			s = again(t)
			return s
		},
		Close: func(t testing.TB) { mustClose(t, s) },
	}
}

// mustOpen opens the file at path; the end of the test closes it.
func mustOpen(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t testing.TB, s *bolt.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
