package pebble

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/tests/testall"
)

// filled makes a closed store with n batches.
func filled(t *testing.T, n uint64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	for i := range n {
		if err := s.Apply(t.Context(), storetest.CrashBatch(1+i, 20<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantSetAside opens a store, which is set aside, and opens it again, empty.
func wantSetAside(t *testing.T, path, reason string) {
	t.Helper()
	_, err := Open(t.Context(), path, Options{})
	if !errors.Is(err, store.ErrSetAside) || !strings.Contains(err.Error(), filepath.Join(path, asideFolder)) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("Open returns %v", err)
	}
	if n, err := storetest.Prefix(openTest(t, path), 1); n != 0 || err != nil {
		t.Errorf("the new store has %d batches, %v", n, err)
	}
}

// largest returns the largest of Pebble's files that match.
func largest(t *testing.T, path, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(path, dbFolder, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	best, size := "", int64(-1)
	for _, name := range names {
		if info, err := os.Stat(name); err != nil {
			t.Fatal(err)
		} else if info.Size() > size {
			best, size = name, info.Size()
		}
	}
	return best
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDamageAtOpenSetsTheStoreAside(t *testing.T) {
	whole := os.DirFS(filled(t, 25))
	for name, damage := range map[string]func(t *testing.T, path string){
		"a table is missing": func(t *testing.T, path string) {
			if err := os.Remove(largest(t, path, "*.sst")); err != nil {
				t.Fatal(err)
			}
		},
		"the manifest is damaged": func(t *testing.T, path string) { flip(t, largest(t, path, "MANIFEST-*"), 10) },
		"all files are missing": func(t *testing.T, path string) {
			if err := os.RemoveAll(filepath.Join(path, dbFolder)); err != nil {
				t.Fatal(err)
			}
		},
		"the format is damaged": func(t *testing.T, path string) { write(t, filepath.Join(path, formatFile), []byte("bridge")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(path, whole); err != nil {
				t.Fatal(err)
			}
			damage(t, path)
			wantSetAside(t, path, "")
		})
	}
}

// flip damages one byte of a file.
func flip(t *testing.T, name string, at int) {
	t.Helper()
	b := read(t, name)
	b[at] ^= 0x55
	write(t, name, b)
}

// TestADamagedManifestLeavesAPrefix damages each part of the manifest. Pebble reads it up to the
// damage: where the files of that time are there, the store is an older one, and never mixed.
func TestADamagedManifestLeavesAPrefix(t *testing.T) {
	t.Parallel()
	parts := testall.Cases(10, 40)
	path, older := filled(t, 25), 0
	for part := range parts {
		damaged := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(damaged, os.DirFS(path)); err != nil {
			t.Fatal(err)
		}
		name := largest(t, damaged, "MANIFEST-*")
		flip(t, name, len(read(t, name))*part/parts)
		s, err := Open(t.Context(), damaged, Options{})
		if errors.Is(err, store.ErrSetAside) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := storetest.Prefix(s, 20<<10)
		if err != nil || n > 25 {
			t.Errorf("part %d of the manifest is damaged: %d batches, %v", part, n, err)
		}
		older++
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if older == 0 {
		t.Error("no damage has left an older store")
	}
}

func TestDamageThatIsReadLaterIsNamedAndSetAsideAtTheNextOpen(t *testing.T) {
	path := filled(t, 25)
	name := largest(t, path, "*.sst")
	b := read(t, name)
	for i := range len(b) / 2 {
		b[i] ^= 0x55
	}
	write(t, name, b)
	s, err := Open(t.Context(), path, Options{})
	if err == nil {
		_, err = storetest.Prefix(s, 20<<10)
		if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Fatalf("a damaged table is read: %v", err)
		}
		if err := s.Apply(t.Context(), storetest.CrashBatch(26, 1)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("a damaged store applies: %v", err)
		}
		select {
		case <-s.Damaged():
		default:
			t.Error("a damaged store does not say so")
		}
		if err := s.Close(); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("a damaged store is closed: %v", err)
		}
		wantSetAside(t, path, "damage was seen before")
		return
	}
	// The names are in the damaged part: Open has read it.
	if !errors.Is(err, store.ErrSetAside) {
		t.Fatal(err)
	}
}

func TestFormats(t *testing.T) {
	path := filled(t, 3)
	file := filepath.Join(path, formatFile)
	write(t, file, []byte(formatText(format+1)))
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrNewer) {
		t.Fatalf("a newer format: %v", err)
	}
	write(t, file, []byte(formatText(format)))
	if n, err := storetest.Prefix(openTest(t, path), 20<<10); n != 3 || err != nil {
		t.Fatalf("after a newer version: %d batches, %v", n, err)
	}
	path = filled(t, 3)
	write(t, filepath.Join(path, formatFile), []byte(formatText(format-1)))
	wantSetAside(t, path, "older")
}

func TestWhatIsNoStoreIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bridge.db")
	write(t, file, []byte("x"))
	long := filepath.Join(dir, "notes")
	write(t, long, bytes.Repeat([]byte("x"), 99))
	for _, path := range []string{file, long, dir} {
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if !bytes.Equal(read(t, file), []byte("x")) {
		t.Error("the file was changed")
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none", "store"), Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("without a parent: %v", err)
	}
}

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	// Not even root makes folders there.
	_, err := Open(t.Context(), "/sys/bridge", Options{})
	if err == nil || errors.Is(err, store.ErrSetAside) || !strings.Contains(err.Error(), "writable") {
		t.Fatalf("a read-only folder: %v", err)
	}
}
