package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
)

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		path := filepath.Join(t.TempDir(), "bridge.db")
		s := mustOpen(t, path)
		return checkpointtest.Fixture{
			Store: s,
			Reopen: func(t testing.TB) checkpoint.Store {
				mustClose(t, s)
				s = mustOpen(t, path)
				return s
			},
			Close: func(t testing.TB) { mustClose(t, s) },
		}
	})
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
