package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/share"
)

const (
	formatFile  = "FORMAT"
	lockFile    = "LOCK"
	damagedFile = "DAMAGED"
	dbFolder    = "db"
	asideFolder = "aside"
)

// format is the version of the folder's layout and of all values.
const format = 3

const lockPause = 10 * time.Millisecond

// folder is the folder of a store, locked.
type folder struct {
	path string
	lock *os.File
}

func (f *folder) in(name string) string { return filepath.Join(f.path, name) }

// openFolder locks the folder of a store, and makes it where there is none. To be read, it is
// locked against writers, and without a store there the error wraps fs.ErrNotExist.
func openFolder(ctx context.Context, path string, wait time.Duration, readOnly bool) (*folder, error) {
	flags, how := os.O_RDWR|os.O_CREATE, syscall.LOCK_EX
	if readOnly {
		flags, how = os.O_RDONLY, syscall.LOCK_SH
	} else if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, unopened(path, err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && readOnly:
		return nil, err
	case err != nil:
		return nil, unopened(path, err)
	case !info.IsDir():
		return nil, option.Errorf("it is a file: set %s to a folder, or move the file away: %w", option.CheckpointURL, store.ErrForeign)
	}
	f := &folder{path: path}
	f.lock, err = os.OpenFile(f.in(lockFile), flags|syscall.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist) && readOnly:
		return nil, cmp.Or(f.checkForeign(), err)
	case err != nil:
		return nil, unopened(path, err)
	}
	if err := f.acquire(ctx, how, wait); err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

func (f *folder) acquire(ctx context.Context, how int, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		err := syscall.Flock(int(f.lock.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("lock it: %w", err)
		case !time.Now().Before(end):
			return store.ErrLocked
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}

// The error wraps errUnusable where the store has to be set aside.
func (f *folder) check() (exists bool, err error) {
	text, err := os.ReadFile(f.in(formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.checkForeign()
	}
	if err != nil {
		return false, unopened(f.path, err)
	}
	var version int
	switch n, err := fmt.Sscanf(string(text), "bridge store %d\n", &version); {
	case n != 1 || err != nil || string(text) != formatText(version):
		return true, fmt.Errorf("its file %s is damaged: %w", formatFile, errUnusable)
	case version > format:
		return true, fmt.Errorf("its format is %d, this version knows %d: run the newer version, or remove the folder and let bridge catch up: %w", version, format, store.ErrNewer)
	case version < format:
		return true, fmt.Errorf("its format is %d, older than %d: %w: %w", version, format, store.ErrOlder, errUnusable)
	}
	reason, err := os.ReadFile(f.in(damagedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return true, unopened(f.path, err)
	}
	return true, fmt.Errorf("damage was seen before: %s: %w", strings.TrimSpace(string(reason)), errUnusable)
}

func (f *folder) checkForeign() error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return unopened(f.path, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case lockFile, dbFolder, asideFolder, damagedFile, formatFile + ".new", damagedFile + ".new", "lost+found":
		default:
			if _, err := share.Parse(e.Name()); err == nil {
				// The folder of a share, beside that of a process without shares.
				continue
			}
			return option.Errorf("it holds %s: set %s to an empty folder: %w", e.Name(), option.CheckpointURL, store.ErrForeign)
		}
	}
	return nil
}

// write replaces a small file in one step, durably.
func (f *folder) write(name, text string) error {
	aside := f.in(name + ".new")
	file, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(aside, f.in(name)); err != nil {
		return err
	}
	return syncDir(f.path)
}

func (f *folder) setAside() error {
	if err := os.RemoveAll(f.in(asideFolder)); err != nil {
		return err
	}
	if err := os.Rename(f.in(dbFolder), f.in(asideFolder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{damagedFile, formatFile} {
		if err := os.Remove(f.in(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(f.path)
}

func formatText(version int) string { return fmt.Sprintf("bridge store %d\n", version) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unopened says what to do about a folder that cannot be opened.
func unopened(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return option.Errorf("there is no folder %s: create it, or set %s to a folder elsewhere: %w", filepath.Dir(path), option.CheckpointURL, err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the folder must be writable for the user that runs bridge: %w", err)
	}
	return err
}

const retryPause = 200 * time.Millisecond

const (
	cannotWrite = "the store cannot write; it retries"
	canWrite    = "the store can write again"
)

// disk is a file system that waits out what may heal, such as a full disk: Pebble would try again
// without a pause, for ever, or give up the process. Until started it fails at once.
type disk struct {
	vfs.FS
	log     *slog.Logger
	started atomic.Bool
	// broken is told what a write fails with where the folder was removed.
	broken func(error)
	// fault is the error of the writes that are being retried, nil when there are none.
	fault atomic.Pointer[error]
	// unsynced is the fault of files that could not be made durable.
	unsynced atomic.Pointer[error]
}

func mayHeal(err error) bool {
	heal := []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM}
	return slices.ContainsFunc(heal, func(one syscall.Errno) bool { return errors.Is(err, one) })
}

func (d *disk) err() error {
	if fault := d.fault.Load(); fault != nil {
		return fmt.Errorf("%w: make room on its disk, or make it writable: %w", store.ErrOutage, *fault)
	}
	return nil
}

// retry calls write until it returns nil or an error that does not heal.
func (d *disk) retry(write func() error) error {
	var mine *error
	for {
		err := write()
		if err == nil || !d.started.Load() || !mayHeal(err) {
			if mine != nil && d.fault.CompareAndSwap(mine, nil) {
				d.log.Log(context.Background(), slog.LevelInfo, canWrite)
			}
			if _, fails := errors.AsType[syscall.Errno](err); !fails || !d.started.Load() {
				return err
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return d.pass(err)
			}
			d.broken(err)
			<-time.After(retryPause)
			return err
		}
		if mine == nil {
			mine = &err
			d.log.Log(context.Background(), slog.LevelWarn, cannotWrite, "error", err)
		}
		d.fault.CompareAndSwap(nil, mine)
		<-time.After(retryPause)
	}
}

// sync calls do, which makes a file durable. It is not tried again: the system may have dropped
// what it could not write. Pebble makes another file of a table, at once, so an error comes with a
// pause, and is an outage until a file is durable. Of the manifest, Pebble gives up the process.
func (d *disk) sync(do func() error) error {
	err := do()
	if err == nil {
		if unsynced := d.unsynced.Swap(nil); unsynced != nil && d.fault.CompareAndSwap(unsynced, nil) {
			d.log.Log(context.Background(), slog.LevelInfo, canWrite)
		}
		return nil
	}
	if d.started.Load() {
		return d.pass(err)
	}
	return err
}

// pass returns err after a pause. It is an outage until a file is durable.
func (d *disk) pass(err error) error {
	if d.fault.CompareAndSwap(nil, &err) {
		d.unsynced.Store(&err)
		d.log.Log(context.Background(), slog.LevelWarn, cannotWrite, "error", err)
	}
	<-time.After(retryPause)
	return err
}

// Create makes a file.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.retry(func() (err error) {
		f, err = d.FS.Create(name, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{f, d}, nil
}

// Rename renames a file.
func (d *disk) Rename(from, to string) error {
	return d.retry(func() error { return d.FS.Rename(from, to) })
}

type file struct {
	vfs.File
	disk *disk
}

// Write writes all of b, and goes on where a write that failed has stopped.
func (f *file) Write(b []byte) (n int, err error) {
	err = f.disk.retry(func() error {
		wrote, err := f.File.Write(b[n:])
		n += wrote
		return err
	})
	return n, err
}

// Sync makes the file durable.
func (f *file) Sync() error { return f.disk.sync(f.File.Sync) }

// SyncData makes the contents of the file durable.
func (f *file) SyncData() error { return f.disk.sync(f.File.SyncData) }

// Preallocate does nothing: a disk that has no room says so when it is written to.
func (f *file) Preallocate(int64, int64) error { return nil }
