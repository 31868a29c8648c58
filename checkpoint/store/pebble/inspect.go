package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
)

// Inspect looks at the store in the folder at path without changing anything: it reads the progress
// of its shards or, where there is none, looks whether one could be made. While it reads, an Open
// waits. What it finds are findings; it does not fail.
func Inspect(ctx context.Context, path string) store.Inspection {
	found := store.Inspection{}
	found.Summary = path
	shards, err := peek(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found.Summary += ", which the first run makes"
		inspectParent(&found.Report, path)
		found.Known = true
	case errors.Is(err, store.ErrOlder):
		found.Add(inspect.Note, inspect.CheckpointOlder, path, "was written by an older version").
			Says("the next run sets it aside and catches up from the bus")
		found.Known = true
	case err != nil:
		unfit(&found.Report, path, err)
	default:
		found.Shards, found.Known = shards, true
		found.Summary += fmt.Sprintf(", checkpoints of %d shards", len(shards))
		if len(shards) == 1 {
			found.Summary = path + ", checkpoint of 1 shard"
		}
		// Whether a folder that can be read can be written.
		for _, dir := range []string{path, filepath.Join(path, dbFolder)} {
			if err := access(dir); err != nil {
				unfit(&found.Report, path, &fs.PathError{Op: "write to", Path: dir, Err: err})
				break
			}
		}
	}
	return found
}

func unfit(r *inspect.Report, path string, err error) {
	switch {
	case errors.Is(err, store.ErrLocked):
		r.Add(inspect.Note, inspect.CheckpointLocked, path, "is in use: a bridge is running on it").
			Says("its positions could not be compared with the tables; while it runs, /api/v1/status shows them")
	case errors.Is(err, store.ErrDamaged):
		r.Add(inspect.Warning, inspect.CheckpointCorrupt, path, "is damaged: "+err.Error()).
			Says("the next run sets it aside and catches up from the bus; a stream whose destination cannot be read begins at its START again")
	case errors.Is(err, store.ErrForeign):
		r.Add(inspect.Unsafe, inspect.CheckpointForeign, path, "was not made by bridge: "+err.Error()).
			Says("set %s to a folder of bridge's own; one that does not exist is made", option.CheckpointURL)
	case errors.Is(err, store.ErrNewer):
		r.Add(inspect.Unsafe, inspect.CheckpointNewer, path, "was written by a newer version: "+err.Error()).
			Says("run that version of bridge or a later one")
	case errors.Is(err, fs.ErrPermission):
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "may not be read and written by the user that runs this: "+err.Error()).
			Says("give it to the user that runs bridge, or set %s to a folder elsewhere", option.CheckpointURL).Types("chown -R %d %s", os.Geteuid(), absolute(path))
	default:
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "cannot be used: "+err.Error()).
			Says("set %s to a folder on a local disk, such as file:///var/lib/bridge/bridge.db", option.CheckpointURL)
	}
}

func absolute(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return full
}

// access judges as the kernel does an open, by the user that counts for files.
func access(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// inspectParent looks whether a store could be made at path, which may be an empty folder.
func inspectParent(r *inspect.Report, path string) {
	dir := absolute(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	err := access(dir)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, "cannot be made: there is no directory "+dir).
			Says("create it for the user that runs bridge, or set %s to a folder elsewhere", option.CheckpointURL).Types("mkdir -p %s", dir)
	case errors.Is(err, unix.EROFS):
		unfit(r, path, err)
	default:
		r.Add(inspect.Unsafe, inspect.CheckpointNotWritable, path, fmt.Sprintf("cannot be made in %s: %v", dir, err)).
			Says("make the directory writable for the user that runs bridge, or set %s to a folder elsewhere", option.CheckpointURL).
			Types("chown %d %s", os.Geteuid(), dir)
	}
}

func peek(ctx context.Context, path string) (shards []store.ShardState, err error) {
	s, err := OpenReadOnly(ctx, path, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	image, err := s.Load(ctx)
	if err != nil {
		return nil, err
	}
	for key, progress := range image.Shards {
		if !progress.Started {
			continue
		}
		meaning, err := store.LoadMeaning(ctx, s, key)
		if err != nil {
			return nil, err
		}
		schema, err := store.LoadSchema(ctx, s, key)
		if err != nil {
			return nil, err
		}
		shards = append(shards, store.ShardState{Key: key, Progress: progress, Meaning: meaning, Schema: schema})
	}
	slices.SortFunc(shards, func(a, b store.ShardState) int { return a.Key.Compare(b.Key) })
	return shards, nil
}
