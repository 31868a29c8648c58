package bolt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"bridge/checkpoint"
	"bridge/internal/inspect"
	"bridge/internal/option"
)

// Inspect looks at the checkpoint in the file at path without making or changing anything: it reads the whole file, or, where
// there is none, looks whether one could be made. While it reads it holds a shared lock, which an Open waits for. What it
// finds are findings; it does not fail.
func Inspect(path string) checkpoint.Inspection {
	found := checkpoint.Inspection{}
	found.Summary = path
	entries, err := peek(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found.Summary += ", which the first run makes"
		inspectPlace(&found.Report, path)
		found.Known = true
	case err != nil:
		unfit(&found.Report, path, err)
	default:
		found.Entries, found.Known = entries, true
		found.Summary += fmt.Sprintf(", checkpoints of %d shards", len(entries))
		if len(entries) == 1 {
			found.Summary = path + ", checkpoint of 1 shard"
		}
	}
	return found
}

// unfit turns the error of peek into a finding.
func unfit(r *inspect.Report, path string, err error) {
	full, _ := filepath.Abs(path)
	switch {
	case errors.Is(err, checkpoint.ErrLocked):
		r.Add(inspect.Note, inspect.CheckpointLocked, path, "is in use: a bridge is running on it").
			Says("its positions could not be compared with the tables; while it runs, /api/v1/status shows them")
	case errors.Is(err, checkpoint.ErrCorrupt):
		r.Add(inspect.Unsafe, inspect.CheckpointCorrupt, path, "is damaged: "+err.Error()).
			Says("restore it from a copy, or move it away: then every stream begins at its START again and repeats what it has published").
			Types("mv %s %s.damaged", full, full)
	case errors.Is(err, checkpoint.ErrForeign):
		r.Add(inspect.Unsafe, inspect.CheckpointForeign, path, "is no checkpoint of bridge: "+err.Error()).
			Says("set %s to a file of bridge's own; one that does not exist is made", option.CheckpointURL)
	case errors.Is(err, checkpoint.ErrNewer):
		r.Add(inspect.Unsafe, inspect.CheckpointNewer, path, "was written by a newer version: "+err.Error()).
			Says("run that version of bridge or a later one")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "may not be read and written by the user that runs this: "+err.Error()).
			Says("give it to the user that runs bridge, or set %s to a file elsewhere", option.CheckpointURL).Types("chown %d %s", os.Geteuid(), full)
	default:
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "cannot be used: "+err.Error()).
			Says("set %s to a file on a local disk, such as file:///var/lib/bridge/bridge.db", option.CheckpointURL)
	}
}

// inspectPlace looks whether a file could be made at path.
func inspectPlace(r *inspect.Report, path string) {
	full, err := filepath.Abs(path)
	dir := filepath.Dir(full)
	if err == nil {
		// By the user that counts for files, as the kernel judges an open.
		err = unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "cannot be made: there is no directory "+dir).
			Says("create it for the user that runs bridge, or set %s to a file elsewhere", option.CheckpointURL).Types("mkdir -p %s", dir)
	default:
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, fmt.Sprintf("cannot be made in %s: %v", dir, err)).
			Says("make the directory writable for the user that runs bridge, or set %s to a file elsewhere", option.CheckpointURL).
			Types("chown %d %s", os.Geteuid(), dir)
	}
}

// peek returns the states in the file at path, fs.ErrNotExist without one, checkpoint.ErrLocked while a process has it open.
func peek(path string) (entries []checkpoint.Entry, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it is no regular file: %w", checkpoint.ErrForeign)
	case info.Size() == 0:
		return nil, nil
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, checkpoint.ErrLocked
	case err != nil:
		return nil, fmt.Errorf("lock it: %w", err)
	}
	// It may have grown before the lock was ours.
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := check(file, info.Size()); err != nil {
		return nil, err
	}
	return statesIn(file, info.Size())
}

// statesIn returns the states in a file that has passed check, each with its meaning.
func statesIn(file *os.File, size int64) ([]checkpoint.Entry, error) {
	var entries []checkpoint.Entry
	meanings := make(map[checkpoint.Key]*checkpoint.Meaning)
	err := verify(file, size, func(path []string, value []byte) error {
		if len(path) != 4 || path[0] != shardBucket || path[3] != stateKey && path[3] != meaningKey {
			return nil
		}
		payload, err := unseal(value, path...)
		if err != nil {
			return err
		}
		key := checkpoint.Key{Stream: path[1], Shard: path[2]}
		if path[3] == meaningKey {
			meanings[key], err = checkpoint.DecodeMeaning(payload)
			return err
		}
		state, err := checkpoint.DecodeState(payload)
		entries = append(entries, checkpoint.Entry{Key: key, State: state})
		return err
	})
	for i := range entries {
		entries[i].State.Meaning = meanings[entries[i].Key]
	}
	slices.SortFunc(entries, func(a, b checkpoint.Entry) int {
		return cmp.Or(cmp.Compare(a.Key.Stream, b.Key.Stream), cmp.Compare(a.Key.Shard, b.Key.Shard))
	})
	return entries, err
}
