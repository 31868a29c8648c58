package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"example.org/bridge/checkpoint/store"
)

const retryPause = 200 * time.Millisecond

// The lines of the log at the beginning and at the end of an outage.
const (
	cannotWrite = "the store cannot write; it retries"
	canWrite    = "the store can write again"
)

// disk is a file system that waits out what may heal, such as a full disk: Pebble would try again
// without a pause, or give up the process. Until started it fails at once.
type disk struct {
	vfs.FS
	log     *slog.Logger
	started atomic.Bool
	// fault is the error of the writes that are being retried, nil when there are none.
	fault atomic.Pointer[error]
	// unsynced is the fault of files that could not be made durable.
	unsynced atomic.Pointer[error]
}

// mayHeal reports whether a write that failed with err may succeed later.
func mayHeal(err error) bool {
	for _, one := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// err returns an error while writes are being retried.
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
		if d.fault.CompareAndSwap(nil, &err) {
			d.unsynced.Store(&err)
			d.log.Log(context.Background(), slog.LevelWarn, cannotWrite, "error", err)
		}
		<-time.After(retryPause)
	}
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
