package pebble

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/tests/must"
)

// asNobody calls f as a user that owns no file here.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	// The owner of the directory, seen from the thread, is somebody else: make the way to it
	// passable.
	for dir := t.TempDir(); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil {
			err = os.Chmod(dir, info.Mode()|0o055)
		}
		must.OK(t, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must.OK(t, unix.Setfsuid(65534))
	defer func() { must.OK(t, unix.Setfsuid(0)) }()
	f()
}

// mustFind inspects the store at path and fails the test unless it has exactly the finding wanted,
// or none for "".
func mustFind(t *testing.T, path string, want inspect.Code) store.Inspection {
	t.Helper()
	found := Inspect(t.Context(), path)
	switch {
	case want == "" && len(found.Findings) == 0:
	case len(found.Findings) == 1 && found.Findings[0].Code == want && found.Findings[0].Do != "":
	default:
		t.Errorf("found %v, want %q", found.Findings, want)
	}
	return found
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = string(read(t, path))
		}
		return err
	}))
	return all
}

// withShards makes a closed store with three shards that have begun and one that has not.
func withShards(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := openTest(t, path)
	for _, k := range []store.Key{{Stream: "b", Shard: "t"}, {Stream: "a", Shard: "t_1"}, {Stream: "a", Shard: "t_0"}, {Stream: "a", Shard: "new"}} {
		p := store.Progress{Position: uint64(len(k.Shard)), Started: k.Shard != "new", Saved: time.Unix(1, 0)}
		meaning := store.AppendMeaning(nil, &store.Meaning{Kind: "release", ID: "id"})
		change := store.ShardChange{Key: k, Progress: &p, Parts: []store.Part{{Kind: store.MeaningPart, Bytes: meaning}}}
		must.OK(t, s.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{change}}))
	}
	must.OK(t, s.Close())
	return path
}

func TestInspect(t *testing.T) {
	t.Run("returns the shards of a sound store and leaves it as it is", func(t *testing.T) {
		path := withShards(t)
		before := files(t, path)
		found := mustFind(t, path, "")
		if !found.Known || len(found.Shards) != 3 || found.Shards[1].Key != (store.Key{Stream: "a", Shard: "t_1"}) ||
			found.Shards[2].Progress.Position != 1 || found.Shards[0].Meaning.ID != "id" {
			t.Errorf("found %+v", found)
		}
		if !maps.Equal(files(t, path), before) {
			t.Error("the folder was changed")
		}
	})
	t.Run("makes nothing where there is nothing, or an empty folder", func(t *testing.T) {
		dir := t.TempDir()
		must.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
		for _, name := range []string{"bridge.db", "folder"} {
			if found := mustFind(t, filepath.Join(dir, name), ""); !found.Known || !strings.Contains(found.Summary, "first run") {
				t.Errorf("found %+v", found)
			}
		}
		if left := files(t, dir); len(left) > 0 {
			t.Errorf("left behind %v", left)
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
	t.Run("names folders that may not be written", func(t *testing.T) {
		path, readable := withShards(t), withShards(t)
		for name, mode := range map[string]os.FileMode{
			filepath.Dir(path): 0o555, readable: 0o555, filepath.Join(readable, lockFile): 0o444, filepath.Join(readable, formatFile): 0o444,
		} {
			must.OK(t, os.Chmod(name, mode))
		}
		asNobody(t, func() {
			for _, name := range []string{path, readable, filepath.Join(filepath.Dir(path), "new.db")} {
				mustFind(t, name, inspect.CheckpointNotWritable)
			}
		})
		for _, dir := range []string{filepath.Dir(path), readable} {
			must.OK(t, os.Chmod(dir, 0o700))
		}
	})
	t.Run("types no chown where the file system is read-only", func(t *testing.T) {
		var r inspect.Report
		unfit(&r, "bridge.db", &fs.PathError{Op: "write to", Path: "bridge.db", Err: unix.EROFS})
		if f := r.Findings[0]; f.Code != inspect.CheckpointNotWritable || f.Statement != "" {
			t.Errorf("found %+v", f)
		}
	})
	t.Run("says that a bridge is running", func(t *testing.T) {
		path := withShards(t)
		s := openTest(t, path)
		found := mustFind(t, path, inspect.CheckpointLocked)
		if found.Known || found.Findings[0].Severity != inspect.Note {
			t.Errorf("found %+v", found)
		}
		must.OK(t, s.Close())
		mustFind(t, path, "")
	})
}

func TestReadOnly(t *testing.T) {
	path := filled(t, 3)
	open := func() *Store {
		return must.Get(OpenReadOnly(t.Context(), path, Options{}))(t)
	}
	first, second := open(), open()
	if n, err := storetest.Prefix(second, 20<<10); n != 3 || err != nil {
		t.Errorf("%d batches, %v", n, err)
	}
	_, forgotten := first.ForgetAbsent(t.Context(), storetest.Orders, time.Now(), 1)
	for name, err := range map[string]error{
		"Apply":        first.Apply(t.Context(), storetest.CrashBatch(4, 20<<10)),
		"Sync":         first.Sync(t.Context()),
		"ForgetAbsent": forgotten,
	} {
		if !errors.Is(err, errReadOnly) {
			t.Errorf("%s returns %v", name, err)
		}
	}
	must.Fail(t, must.Err(Open(t.Context(), path, Options{})), store.ErrLocked)
	must.OK(t, errors.Join(first.Close(), second.Close(), second.Close()))
	s := openTest(t, path)
	must.Fail(t, must.Err(OpenReadOnly(t.Context(), path, Options{})), store.ErrLocked)
	must.OK(t, s.Close())
	must.Fail(t, must.Err(OpenReadOnly(t.Context(), filepath.Join(path, "none"), Options{})), fs.ErrNotExist)
}

func TestOpenOrReplace(t *testing.T) {
	path := filled(t, 3)
	var lines bytes.Buffer
	reopen := func(held uint64) {
		t.Helper()
		s := must.Get(OpenOrReplace(context.Background(), path, Options{Log: slog.New(slog.NewTextHandler(&lines, nil))}))(t)
		if n, err := storetest.Prefix(s, 20<<10); n != held || err != nil {
			t.Errorf("the store has %d batches, %v", n, err)
		}
		must.OK(t, s.Close())
	}
	if reopen(3); lines.Len() > 0 {
		t.Errorf("logged %s", &lines)
	}
	// The second time the one that was set aside before is replaced, too.
	for range 2 {
		lines.Reset()
		write(t, filepath.Join(path, damagedFile), []byte("by a test\n"))
		reopen(0)
		if text := lines.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, filepath.Join(path, asideFolder)) {
			t.Errorf("logged %s", text)
		}
	}
	// A store that was not finished is made again.
	path = filled(t, 3)
	must.OK(t, os.Remove(filepath.Join(path, formatFile)))
	reopen(0)
	s, err := OpenOrReplace(t.Context(), filepath.Dir(path), Options{})
	if !errors.Is(err, store.ErrForeign) || !reflect.ValueOf(s).IsNil() {
		t.Errorf("a folder of others: %v, %v", s, err)
	}
}
