package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bridge/checkpoint/store"
)

// errReadOnly is returned for changes of a store that was opened to be read.
var errReadOnly = errors.New("the store was opened to be read")

// OpenReadOnly opens the store in the folder at path and changes nothing there; what changes a
// store returns an error. Several may read at once, while nobody else has it open. The error wraps
// fs.ErrNotExist where there is none, and store.ErrOlder or store.ErrDamaged where Open would set
// it aside.
func OpenReadOnly(ctx context.Context, path string, opts Options) (*Store, error) {
	opts.setDefaults()
	f, err := shareFolder(ctx, path, opts.LockWait)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	s, err := openReadOnly(f, opts)
	if errors.Is(err, errUnusable) && !errors.Is(err, store.ErrOlder) {
		err = fmt.Errorf("the next run sets it aside and catches up from the bus: %w: %w", err, store.ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, errors.Join(err, f.lock.Close()))
	}
	return s, nil
}

func openReadOnly(f *folder, opts Options) (*Store, error) {
	exists, err := f.check()
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("it was not made to its end: %w", fs.ErrNotExist)
	}
	s := newStore(f, opts)
	s.readOnly = true
	o := s.options(opts)
	o.ReadOnly, o.ErrorIfNotExists, o.FS = true, true, reading{vfs.Default}
	if s.db, err = pebble.Open(f.in(dbFolder), o); err != nil {
		if isOutage(err) {
			return nil, unopened(f.path, err)
		}
		// Its text alone: a file that is missing is not a store that is missing.
		return nil, fmt.Errorf("%w: %s", errUnusable, err.Error())
	}
	if err := s.loadNames(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// reading is the file system of a store that is read. The folder's lock stands for Pebble's, which
// lets only one in.
type reading struct{ vfs.FS }

// Lock does nothing.
func (reading) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
