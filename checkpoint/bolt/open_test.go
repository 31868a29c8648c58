package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
)

var key = checkpoint.Key{Stream: "orders", Shard: "db.orders"}

// mustSay fails the test unless err has all texts.
func mustSay(t testing.TB, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, want one with %q", err, text)
		}
	}
}

// mustRefuse fails the test unless Open refuses the file at path with this error and leaves it as it is.
func mustRefuse(t *testing.T, path string, want error, texts ...string) {
	t.Helper()
	before := mustRead(t, path)
	s, err := bolt.Open(path, bolt.Options{LockTimeout: 20 * time.Millisecond})
	if err == nil {
		mustClose(t, s)
	}
	if !errors.Is(err, want) {
		t.Errorf("Open returns %v, want %v", err, want)
		return
	}
	mustSay(t, err, append(texts, path)...)
	if !bytes.Equal(mustRead(t, path), before) {
		t.Error("Open changed the file that it refuses")
	}
}

func TestANewFileIsPrivateAndWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bridge.db")
	mustOpen(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestAnEmptyFileIsFilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bridge.db")
	for name, content := range map[string]string{"bridge.db": "", "bridge.db.new": "left behind by a kill"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path)
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
		t.Error(err)
	}
}

func TestASymbolicLinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target.db"), filepath.Join(dir, "bridge.db")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path))
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	mustOpen(t, target)
}

func TestAFileInUseBySelfIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	mustOpen(t, path)
	_, err := bolt.Open(path, bolt.Options{LockTimeout: 20 * time.Millisecond})
	if !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("Open returns %v, want ErrLocked", err)
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	for name, content := range map[string][]byte{
		"text":    []byte("id,name\n1,somebody\n"),
		"one":     {0},
		"zeros":   make([]byte, 32<<10),
		"sqlite":  append([]byte("SQLite format 3\x00"), make([]byte, 8176)...),
		"a large": bytes.Repeat([]byte("0123456789abcdef"), 1<<12),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, path, checkpoint.ErrForeign, "CHECKPOINT_URL")
		})
	}
}

// editBolt changes the file at path, which may not exist, with bbolt itself.
func editBolt(t *testing.T, path string, opts bbolt.Options, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestBoltFilesOfOthersAreRefused(t *testing.T) {
	for name, opts := range map[string]bbolt.Options{"ordinary": {}, "without a free list": {NoFreelistSync: true}, "small pages": {PageSize: 1024}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "other.db")
			editBolt(t, path, opts, func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucket([]byte("theirs"))
				if err != nil {
					return err
				}
				return b.Put([]byte("key"), bytes.Repeat([]byte("value"), 2000))
			})
			mustRefuse(t, path, checkpoint.ErrForeign, "another program", "CHECKPOINT_URL")
		})
	}
	t.Run("nothing in it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.db")
		editBolt(t, path, bbolt.Options{}, func(*bbolt.Tx) error { return nil })
		mustRefuse(t, path, checkpoint.ErrForeign)
	})
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := bolt.Open(dir, bolt.Options{})
	mustSay(t, err, dir, "is a directory", "CHECKPOINT_URL", "bridge.db")
	_, err = bolt.Open(filepath.Join(dir, "missing", "bridge.db"), bolt.Options{})
	mustSay(t, err, "no directory "+filepath.Join(dir, "missing"), "create it")
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("Open made a directory")
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(pipe, bolt.Options{}); !errors.Is(err, checkpoint.ErrForeign) {
		t.Errorf("Open of a pipe returns %v, want ErrForeign", err)
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := mustOpen(t, path)
	mustClose(t, s)
	again := mustOpen(t, path)
	mustClose(t, s)
	if err := again.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
		t.Error(err)
	}
}

func TestManyOpenANewFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	var wg sync.WaitGroup
	var opened atomic.Int32
	for range 16 {
		wg.Go(func() {
			switch s, err := bolt.Open(path, bolt.Options{LockTimeout: 50 * time.Millisecond}); {
			case err == nil:
				opened.Add(1)
				t.Cleanup(func() { mustClose(t, s) })
			case !errors.Is(err, checkpoint.ErrLocked):
				t.Errorf("Open returns %v, want ErrLocked", err)
			}
		})
	}
	wg.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("%d have the file open", n)
	}
}

func TestWhatMayNotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bridge.db")
	mustClose(t, mustOpen(t, path))
	for name, mode := range map[string]os.FileMode{path: 0o444, dir: 0o555} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{path, filepath.Join(dir, "new.db")} {
		err := asNobody(t, func() error { _, err := bolt.Open(name, bolt.Options{}); return err })
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open of %s returns %v, want a permission error", name, err)
		}
		mustSay(t, err, name, "must be writable")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// asNobody runs f as a user that is not root where the test runs as root, whom no mode of a file keeps out.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return f()
	}
	// The owner of the directory, seen from the thread, is somebody else: make the way to it passable.
	for dir := t.TempDir(); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil {
			err = os.Chmod(dir, info.Mode()|0o055)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Error(err)
		}
	}()
	return f()
}
