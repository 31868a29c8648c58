package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/internal/option"
)

// lockPause is the pause between attempts to lock the file.
const lockPause = 10 * time.Millisecond

// openLocked returns the database in the file at path, which it makes if there is none.
func openLocked(path string, wait time.Duration) (*bbolt.DB, error) {
	for end := time.Now().Add(wait); ; {
		file, err := lock(path, end)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			return nil, closing(file, err)
		}
		if info.Size() > 0 {
			return openFile(file, info.Size())
		}
		// The lock on the empty file keeps other processes from making one too.
		if err := closing(file, create(path)); err != nil {
			return nil, err
		}
	}
}

// lock opens the file at path, which it makes empty if there is none, and locks it.
func lock(path string, end time.Time) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, unopened(path, err)
		}
		held, err := tryLock(file, path)
		if err != nil || held {
			if err != nil {
				err = closing(file, err)
				file = nil
			}
			return file, err
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		if !time.Now().Before(end) {
			return nil, checkpoint.ErrLocked
		}
		time.Sleep(lockPause)
	}
}

// tryLock reports whether it has locked the file that is at path. Between open and lock another process may have put a new
// file there.
func tryLock(file *os.File, path string) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("it is no regular file: %w", checkpoint.ErrForeign)
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock it: %w", err)
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, there), err
}

// openFile opens the database in a locked file. The file belongs to the database; it is closed after an error.
func openFile(file *os.File, size int64) (*bbolt.DB, error) {
	if err := check(file, size); err != nil {
		return nil, closing(file, err)
	}
	db, err := bbolt.Open(file.Name(), 0o600, &bbolt.Options{
		FreelistType: bbolt.FreelistMapType,
		// The same open file, because it carries the lock.
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return file, nil },
	})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}

// upgrade makes a file of an older version one of the present one.
func (s *Store) upgrade() error {
	current := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket([]byte(markBucket)).Get([]byte(formatKey))
		current = bytes.Equal(value, seal(formatMark(), markBucket, formatKey))
		return nil
	})
	if err != nil || current {
		return err
	}
	return s.db.Update(mark)
}

// create puts a new database in the place of the empty file at path, in one step.
func create(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	aside := path + ".new"
	db, err := bbolt.Open(aside, 0o600, &bbolt.Options{OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		// What a killed process left behind is begun anew.
		return os.OpenFile(name, flag|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, mode)
	}})
	if err != nil {
		return fmt.Errorf("make a new file: %w", unopened(aside, err))
	}
	if err := errors.Join(db.Update(mark), db.Close()); err != nil {
		return fmt.Errorf("make a new file: %w", err)
	}
	if err := os.Rename(aside, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unopened says what to do about a file that cannot be opened.
func unopened(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return option.Errorf("there is no directory %s: create it, or set %s to a file elsewhere: %w", dir, option.CheckpointURL, err)
	case errors.Is(err, syscall.EISDIR):
		return option.Errorf("it is a directory: set %s to a file in it, such as %s: %w", option.CheckpointURL, filepath.Join(path, "bridge.db"), err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the file and its directory %s must be writable for the user that runs bridge: %w", dir, err)
	}
	return err
}

// closing closes file and returns err, with what went wrong at closing.
func closing(file *os.File, err error) error { return errors.Join(err, file.Close()) }
