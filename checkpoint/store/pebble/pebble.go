package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"example.org/bridge/checkpoint/store"
)

var (
	// errUnusable is returned inside the package for a store that has to be set aside.
	errUnusable = errors.New("cannot be used")
	errReadOnly = errors.New("the store was opened to be read")
)

// Options say how a store works.
type Options struct {
	// LockWait is how long Open waits for another process to release the store. Defaults to 0.
	LockWait time.Duration
	// Log receives outages and damage. Defaults to none.
	Log *slog.Logger
	// memtable is the size of a memtable in bytes. Defaults to 8 MiB; tests choose less.
	memtable uint64
	// hash finds entities. Defaults to hashOf; tests choose one that collides.
	hash func(entity []byte) uint64
	// fs is the file system. Defaults to the machine's; tests choose one with faults.
	fs vfs.FS
}

func (o *Options) setDefaults() {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.memtable = cmp.Or(o.memtable, defaultMemtable)
	if o.hash == nil {
		o.hash = hashOf
	}
	o.fs = cmp.Or(o.fs, vfs.Default)
}

const (
	defaultMemtable = 8 << 20
	// cacheSize is the memory for blocks of files, beyond what memtables reserve of it.
	cacheSize = 16 << 20
	// freshL0Threshold is twice the number of overlapping files from which on a store that has a
	// filter compacts them, and stopWrites that number at which Apply waits for compaction. Each
	// compaction rewrites the hashes of all entities.
	freshL0Threshold = 32
	stopWrites       = 48
)

// Store keeps a store in a folder. Make one with Open.
type Store struct {
	folder *folder
	db     *pebble.DB
	disk   *disk
	hash   func(entity []byte) uint64
	names  names
	// applying orders batches, so that the number of a name is saved at the latest with the first
	// batch that uses it.
	applying  sync.Mutex
	forgotten atomic.Pointer[forgotten]
	closed    atomic.Bool
	// flushing counts the flushes that a Sync has begun and that have not ended.
	flushing atomic.Int32
	damage   atomic.Pointer[error]
	damaged  chan struct{}
	// fresh is nil unless this process has made the store, and once it is full.
	fresh    atomic.Pointer[filter]
	readOnly bool
}

var _ store.Store = (*Store)(nil)

// Open opens the store in the folder at path, and makes it where there is none; its parent must
// exist. The error wraps store.ErrSetAside, with the path, when a damaged or older store was moved
// away: call Open again for an empty one.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	return open(ctx, path, opts, false)
}

// OpenReadOnly opens the store in the folder at path and changes nothing there; what changes a
// store returns an error. Several may read at once, while nobody else has it open. The error wraps
// fs.ErrNotExist where there is none, and store.ErrOlder or store.ErrDamaged where Open would set
// it aside.
func OpenReadOnly(ctx context.Context, path string, opts Options) (*Store, error) {
	return open(ctx, path, opts, true)
}

// OpenOrReplace opens the store as Open does, and where that sets one aside, logs it and opens an
// empty one, which catches up from the bus.
func OpenOrReplace(ctx context.Context, path string, opts Options) (*Store, error) {
	opts.setDefaults()
	s, err := Open(ctx, path, opts)
	if errors.Is(err, store.ErrSetAside) {
		opts.Log.WarnContext(ctx, "begins with an empty store and catches up from the bus", "path", path, "reason", err)
		s, err = Open(ctx, path, opts)
	}
	return s, err
}

func open(ctx context.Context, path string, opts Options, readOnly bool) (*Store, error) {
	opts.setDefaults()
	f, err := openFolder(ctx, path, opts.LockWait, readOnly)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	s, err := f.open(opts, readOnly)
	switch {
	case err == nil:
		return s, nil
	case !errors.Is(err, errUnusable):
	case !readOnly:
		if failed := f.setAside(); failed != nil {
			err = fmt.Errorf("set it aside: %w", errors.Join(failed, err))
			break
		}
		err = fmt.Errorf("%w in %s, and a new one catches up from the bus: %w: %w", store.ErrSetAside, f.in(asideFolder), err, store.ErrDamaged)
	case !errors.Is(err, store.ErrOlder):
		err = fmt.Errorf("the next run sets it aside and catches up from the bus: %w: %w", err, store.ErrDamaged)
	}
	return nil, fmt.Errorf("store %s: %w", path, errors.Join(err, f.lock.Close()))
}

// open opens the store in the folder. The error wraps errUnusable where it has to be set aside.
func (f *folder) open(opts Options, readOnly bool) (*Store, error) {
	exists, err := f.check()
	switch {
	case err != nil:
	case !exists && readOnly:
		err = fmt.Errorf("it was not made to its end: %w", fs.ErrNotExist)
	case !exists:
		// What a kill left of a store that was being made.
		err = errors.Join(os.RemoveAll(f.in(dbFolder)), os.RemoveAll(f.in(damagedFile)))
	}
	if err != nil {
		return nil, err
	}
	s := &Store{
		folder: f, disk: &disk{FS: opts.fs, log: opts.Log}, hash: opts.hash, readOnly: readOnly,
		damaged: make(chan struct{}), names: names{numbers: map[name]uint32{}, list: map[nameKind][]name{}},
	}
	s.disk.broken = s.noteDamage
	o := s.options(opts)
	o.ErrorIfExists, o.ErrorIfNotExists = !exists, exists
	if readOnly {
		o.ReadOnly, o.FS = true, reading{vfs.Default}
	}
	if !exists {
		// The filter in memory spares what unknown entities would cost in files that overlap.
		o.L0CompactionThreshold = freshL0Threshold
	}
	if !exists {
		// A failure shows when it is opened.
		_ = os.Mkdir(f.in(dbFolder), 0o700)
	}
	if !readOnly {
		// All may read Pebble's files, and the folder may be open to all. Not every disk has modes.
		_ = os.Chmod(f.in(dbFolder), 0o700)
	}
	s.db, err = pebble.Open(f.in(dbFolder), o)
	switch {
	case err != nil && exists && !isOutage(err):
		// Its text alone: a file that is missing is not a store that is missing.
		return nil, fmt.Errorf("%w: %s", errUnusable, err.Error())
	case err != nil:
		return nil, unopened(f.path, err)
	case exists:
		err = s.loadNames()
	default:
		s.fresh.Store(newFilter())
		err = f.write(formatFile, formatText(format))
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.disk.started.Store(true)
	return s, nil
}

// reading locks nothing: the folder's lock stands for Pebble's, which lets only one in.
type reading struct{ vfs.FS }

// Lock does nothing.
func (reading) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// isOutage reports whether err comes from the system. A file that is missing is damage.
func isOutage(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.EINVAL
}

// Memory: two memtables, which Pebble counts against the cache, and the cache.
func (s *Store) options(opts Options) *pebble.Options {
	log := opts.Log
	o := &pebble.Options{
		FS:                          s.disk,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		Logger:                      logger{log},
		MemTableSize:                opts.memtable,
		MemTableStopWritesThreshold: 2,
		CacheSize:                   cacheSize + 2*int64(opts.memtable),
		MaxOpenFiles:                200,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       stopWrites,
		LBaseMaxBytes:               64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if pebble.IsCorruptionError(err) {
					s.noteDamage(err)
				}
				if s.disk.err() != nil || s.damage.Load() != nil {
					// That was told; Pebble tries again five times a second.
					return
				}
				log.Log(context.Background(), slog.LevelWarn, "the store failed in the background", "error", err)
			},
			DataCorruption: func(info pebble.DataCorruptionInfo) { s.noteDamage(errors.New(info.String())) },
		},
	}
	// A lookup reads the filter of a whole file, so files stay small.
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = 8 << 20
	}
	// Entries by row lie in files of their own: where they are new, their files overlap no others,
	// and compaction reads no former ones.
	o.Experimental.SpanPolicyFunc = func(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
		if start[0] < entryTag {
			end = []byte{entryTag}
		}
		return policy, end, nil
	}
	// Rows that move leave tombstones everywhere: compacting tables for that alone writes each byte
	// five times as often, and scans over rows that moved are rare.
	o.Experimental.TombstoneDenseCompactionThreshold = -1
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
	}
	return o
}

// noteDamage notes that the files are damaged, so that the next Open sets them aside.
func (s *Store) noteDamage(cause error) {
	err := fmt.Errorf("store %s: %w: restart bridge, which sets it aside and catches up from the bus: %w", s.folder.path, store.ErrDamaged, cause)
	if !s.damage.CompareAndSwap(nil, &err) {
		return
	}
	defer close(s.damaged)
	if s.readOnly {
		return
	}
	failed := s.folder.write(damagedFile, cause.Error()+"\n")
	s.disk.log.Log(context.Background(), slog.LevelError, "the store is damaged", "error", errors.Join(err, failed))
}

// Damaged is closed once damage was seen.
func (s *Store) Damaged() <-chan struct{} { return s.damaged }

// failed makes the error of a read one of a store.
func (s *Store) failed(err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) {
		return err
	}
	if errors.Is(err, errForm) || pebble.IsCorruptionError(err) {
		s.noteDamage(err)
		return *s.damage.Load()
	}
	return fmt.Errorf("store %s: %w", s.folder.path, err)
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("store %s: %w", s.folder.path, store.ErrClosed)
	}
	if damage := s.damage.Load(); damage != nil {
		return *damage
	}
	return context.Cause(ctx)
}

func (s *Store) writable(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.readOnly {
		return fmt.Errorf("store %s: %w", s.folder.path, errReadOnly)
	}
	if err := s.disk.err(); err != nil {
		return fmt.Errorf("store %s: %w", s.folder.path, err)
	}
	return nil
}

// Sync makes the applied batches durable.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	// Pebble blocks while earlier memtables wait for the disk.
	flushed := make(chan error, 1)
	s.flushing.Add(1)
	go func() {
		defer s.flushing.Add(-1)
		flushed <- s.db.Flush()
	}()
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for {
		select {
		case err := <-flushed:
			return s.failed(err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := s.writable(ctx); err != nil {
				return err
			}
		}
	}
}

// Close makes the applied batches durable and releases the folder. Where that fails because the
// disk takes no writes, the folder stays locked until the process ends.
func (s *Store) Close() error {
	if s.closed.Load() {
		return nil
	}
	if s.readOnly {
		s.closed.Store(true)
		return errors.Join(s.db.Close(), s.folder.lock.Close())
	}
	// A disk that hangs must not keep the process.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.Sync(ctx)
	if s.closed.Swap(true) {
		return nil
	}
	if errors.Is(err, store.ErrOutage) || err != nil && s.flushing.Load() > 0 {
		return err
	}
	return errors.Join(err, s.db.Close(), s.folder.lock.Close())
}

type logger struct{ log *slog.Logger }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.log.Log(context.Background(), slog.LevelWarn, "the store's engine reports an error", "error", fmt.Sprintf(format, args...))
}

// Fatalf ends the process: Pebble cannot go on, and a kill loses nothing.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Log(context.Background(), slog.LevelError, "the store cannot go on: check its disk, then restart bridge", "error", fmt.Sprintf(format, args...))
	os.Exit(1)
}
