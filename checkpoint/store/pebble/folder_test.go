package pebble

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

func filled(t *testing.T, n uint64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store")
	s := openTest(t, path)
	for i := range n {
		must.OK(t, s.Apply(t.Context(), storetest.CrashBatch(1+i, 20<<10)))
	}
	must.OK(t, s.Close())
	return path
}

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
	must.OK(t, os.WriteFile(name, b, 0o600))
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(name))(t)
}

// TestWhatCannotBeOpened has a folder that Open does not take, or sets aside, as Inspect says
// before, which changes nothing.
func TestWhatCannotBeOpened(t *testing.T) {
	whole := os.DirFS(filled(t, 25))
	in := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, filepath.Join(path, name), []byte(text)) }
	}
	without := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			must.OK(t, os.RemoveAll(largest(t, path, pattern)))
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		// err is what Open returns, reason a part of it. Once it was set aside, a second Open
		// makes an empty store.
		err    error
		reason string
		code   inspect.Code
	}{
		"a table is missing":      {without("*.sst"), store.ErrSetAside, "", inspect.CheckpointCorrupt},
		"the manifest is missing": {without("MANIFEST-*"), store.ErrSetAside, "", inspect.CheckpointCorrupt},
		"the manifest is damaged": {func(t *testing.T, path string) { flip(t, largest(t, path, "MANIFEST-*"), 10) }, store.ErrSetAside, "", inspect.CheckpointCorrupt},
		"all files are missing":   {without("."), store.ErrSetAside, "", inspect.CheckpointCorrupt},
		"the format is damaged":   {in(formatFile, "bridge"), store.ErrSetAside, formatFile, inspect.CheckpointCorrupt},
		"damage was seen":         {in(damagedFile, "by a test\n"), store.ErrSetAside, "damage was seen before: by a test", inspect.CheckpointCorrupt},
		"damage was seen while the disk was full": {func(t *testing.T, path string) {
			in(damagedFile+".new", "")(t, path)
			without("*.sst")(t, path)
		}, store.ErrSetAside, "", inspect.CheckpointCorrupt},
		"an older format": {in(formatFile, formatText(format-1)), store.ErrSetAside, "older", inspect.CheckpointOlder},
		"a newer format":  {in(formatFile, formatText(format+1)), store.ErrNewer, "run the newer version", inspect.CheckpointNewer},
		"a folder of others": {func(t *testing.T, path string) {
			must.OK(t, os.Remove(filepath.Join(path, formatFile)))
			write(t, filepath.Join(path, "notes"), []byte("x"))
		}, store.ErrForeign, "notes", inspect.CheckpointForeign},
		"a file": {func(t *testing.T, path string) {
			must.OK(t, os.RemoveAll(path))
			write(t, path, []byte("a shopping list"))
		}, store.ErrForeign, "move the file away", inspect.CheckpointForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store")
			must.OK(t, os.CopyFS(path, whole))
			c.make(t, path)
			before := files(t, path)
			if found := mustFind(t, path, c.code); found.Known != (c.code == inspect.CheckpointOlder) {
				t.Errorf("found %+v", found)
			}
			_, err := Open(t.Context(), path, Options{})
			must.Fail(t, err, c.err, c.reason)
			if c.err != store.ErrSetAside {
				if !maps.Equal(files(t, path), before) {
					t.Error("it was changed")
				}
				return
			}
			if !strings.Contains(err.Error(), filepath.Join(path, asideFolder)) {
				t.Errorf("%v does not say where it is", err)
			}
			if n, err := storetest.Prefix(openTest(t, path), 1); n != 0 || err != nil {
				t.Errorf("the new store has %d batches, %v", n, err)
			}
		})
	}
}

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
		must.OK(t, os.CopyFS(damaged, os.DirFS(path)))
		name := largest(t, damaged, "MANIFEST-*")
		flip(t, name, len(read(t, name))*part/parts)
		s, err := Open(t.Context(), damaged, Options{})
		if errors.Is(err, store.ErrSetAside) {
			continue
		}
		must.OK(t, err)
		n, err := storetest.Prefix(s, 20<<10)
		if err != nil || n > 25 {
			t.Errorf("part %d of the manifest is damaged: %d batches, %v", part, n, err)
		}
		older++
		must.OK(t, s.Close())
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
		must.Fail(t, err, store.ErrDamaged, path)
		must.Fail(t, s.Apply(t.Context(), storetest.CrashBatch(26, 1)), store.ErrDamaged)
		select {
		case <-s.Damaged():
		default:
			t.Error("a damaged store does not say so")
		}
		must.Fail(t, s.Close(), store.ErrDamaged)
		mustFind(t, path, inspect.CheckpointCorrupt)
		return
	}
	// The names are in the damaged part: Open has read it.
	must.Fail(t, err, store.ErrSetAside)
}

func TestAFolderThatCannotBeMadeIsNamed(t *testing.T) {
	must.Fail(t, must.Err(Open(t.Context(), filepath.Join(t.TempDir(), "none", "store"), Options{})), os.ErrNotExist, "create it")
	// Not even root makes folders there.
	_, err := Open(t.Context(), "/sys/bridge", Options{})
	if err == nil || errors.Is(err, store.ErrSetAside) || !strings.Contains(err.Error(), "writable") {
		t.Fatalf("a read-only folder: %v", err)
	}
}

// TestAFolderThatIsOpenToAll: others find nothing of the store there, also where it was open, too.
func TestAFolderThatIsOpenToAll(t *testing.T) {
	path := t.TempDir()
	db := filepath.Join(path, dbFolder)
	for range 2 {
		s := must.Get(Open(t.Context(), path, Options{}))(t)
		info, err := os.Stat(db)
		must.OK(t, errors.Join(err, s.Close()))
		if info.Mode().Perm() != 0o700 {
			t.Errorf("its mode is %v", info.Mode())
		}
		must.OK(t, os.Chmod(db, 0o755))
	}
}

// TestFoldersOfShares: a process without shares has its store beside the folders of shares, also
// where these were there first.
func TestFoldersOfShares(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(path, "1-of-3"), 0o700))
	s := must.Get(Open(t.Context(), path, Options{}))(t)
	must.OK(t, s.Close())
}
