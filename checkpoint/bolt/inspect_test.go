package bolt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/internal/inspect"
	"bridge/source/ledger"
)

// mustFind inspects the checkpoint at path and fails the test unless it has exactly the finding wanted, or none for "".
func mustFind(t *testing.T, path string, want inspect.Code) checkpoint.Inspection {
	t.Helper()
	found := bolt.Inspect(path)
	switch {
	case want == "" && len(found.Findings) == 0:
	case len(found.Findings) == 1 && found.Findings[0].Code == want && found.Findings[0].Do != "":
	default:
		t.Errorf("found %v, want %q", found.Findings, want)
	}
	return found
}

func TestInspect(t *testing.T) {
	saved := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "bridge.db")
		s := mustOpen(t, path)
		for _, k := range []checkpoint.Key{{Stream: "b", Shard: "t"}, {Stream: "a", Shard: "t_1"}, {Stream: "a", Shard: "t_0"}} {
			state := checkpoint.State{Position: ledger.Position{ID: uint64(len(k.Shard))}, Saved: time.Unix(1, 0)}
			if err := s.Save(t.Context(), k, state); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, s)
		return path
	}
	t.Run("returns the states of a sound file and leaves it as it is", func(t *testing.T) {
		path := saved(t)
		before := mustRead(t, path)
		found := mustFind(t, path, "")
		if !found.Known || len(found.Entries) != 3 || found.Entries[1].Key != (checkpoint.Key{Stream: "a", Shard: "t_1"}) || found.Entries[2].State.Position.ID != 1 {
			t.Errorf("found %+v", found)
		}
		if !bytes.Equal(mustRead(t, path), before) {
			t.Error("the file was changed")
		}
		mustClose(t, mustOpen(t, path))
	})
	t.Run("makes no file where there is none", func(t *testing.T) {
		dir := t.TempDir()
		if found := mustFind(t, filepath.Join(dir, "bridge.db"), ""); !found.Known {
			t.Errorf("found %+v", found)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind %v, %v", left, err)
		}
	})
	t.Run("takes an empty file for one to be filled", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bridge.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if found := mustFind(t, path, ""); !found.Known {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("names a directory that is missing, with the command that makes it", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "none")
		found := mustFind(t, filepath.Join(dir, "bridge.db"), inspect.CheckpointNotWritable)
		// That there are no positions is known.
		if !found.Known || found.Findings[0].Statement != "mkdir -p "+dir {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("names a file and a directory that may not be written", func(t *testing.T) {
		path := saved(t)
		dir := filepath.Dir(path)
		for name, mode := range map[string]os.FileMode{path: 0o444, dir: 0o555} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{path, filepath.Join(dir, "new.db")} {
			err := asNobody(t, func() error {
				mustFind(t, name, inspect.CheckpointNotWritable)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("says that a bridge is running", func(t *testing.T) {
		path := saved(t)
		s := mustOpen(t, path)
		found := mustFind(t, path, inspect.CheckpointLocked)
		if found.Known || found.Findings[0].Severity != inspect.Note {
			t.Errorf("found %+v", found)
		}
		mustClose(t, s)
		mustFind(t, path, "")
	})
	t.Run("tells a damaged file from one of others and from a directory", func(t *testing.T) {
		path := saved(t)
		damaged := mustRead(t, path)
		damaged[len(damaged)/2] ^= 0x55
		for at := range damaged {
			if at%512 == 100 {
				damaged[at] ^= 0x55
			}
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		found := mustFind(t, path, inspect.CheckpointCorrupt)
		if found.Known || !strings.HasPrefix(found.Findings[0].Statement, "mv ") {
			t.Errorf("found %+v", found)
		}
		if err := os.WriteFile(path, []byte("a shopping list"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustFind(t, path, inspect.CheckpointForeign)
		mustFind(t, filepath.Dir(path), inspect.CheckpointNotWritable)
	})
}
