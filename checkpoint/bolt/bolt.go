package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

var _ checkpoint.Store = (*Store)(nil)

// maxName is the longest name of a stream or shard, in bytes (bbolt.MaxKeySize).
const maxName = bbolt.MaxKeySize

// Options say how a file is opened.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the file. Defaults to 1 s.
	LockTimeout time.Duration
}

// Store is a checkpoint in one file. It is safe for concurrent use.
type Store struct {
	path    string
	db      *bbolt.DB
	bounds  bounds
	overlay *overlay
	// turn is held by the goroutine that writes a transaction.
	turn chan struct{}
	// fold and credit belong to who has the turn: the fold that is under way, and how many operations on the trees are due.
	fold   *fold
	credit int
	// dueShard is the shard to fold next, nextLook when it is looked for one that has aged, nextStep when the fold goes on in any case.
	dueShard           checkpoint.Key
	nextLook, nextStep time.Time
	// onPreparation is what tests have called before each transaction of the preparations that begin.
	onPreparation func() error
	// broken is closed when the store fails.
	broken chan struct{}

	mu      sync.Mutex
	waiting []*change
	failed  error
	closed  bool
}

// Open opens the checkpoint in the file at path and makes a new one where there is no file or an empty one. It blocks while it
// reads the whole file, and up to the lock timeout while another process has it open.
//
// The error wraps checkpoint.ErrCorrupt, ErrForeign, ErrNewer or ErrLocked where that is the cause; in all these cases the file
// is left as it is.
func Open(path string, opts Options) (*Store, error) { return open(path, opts, defaultBounds) }

func open(path string, opts Options, b bounds) (*Store, error) {
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = time.Second
	}
	s := &Store{path: path, turn: make(chan struct{}, 1), bounds: b, overlay: newOverlay(), broken: make(chan struct{})}
	err := s.guard(func() (err error) {
		if s.db, err = openLocked(path, opts.LockTimeout); err != nil {
			return err
		}
		if err = s.db.View(s.overlay.load); err == nil {
			err = s.upgrade()
		}
		if err != nil {
			err = errors.Join(err, s.db.Close())
		}
		return err
	})
	if err != nil {
		return nil, explain(path, err)
	}
	return s, nil
}

// Close waits for the save that is being written and releases the file. Everything else returns an error afterwards. A
// second Close does nothing.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	closed, failed := s.closed, s.failed
	s.closed = true
	if failed == nil {
		s.failed = errClosed
	}
	s.mu.Unlock()
	if closed {
		return nil
	}
	if failed != nil {
		// After a panic the database may hold its own locks for ever. The process's end releases the file.
		return fmt.Errorf("close checkpoint: %w", failed)
	}
	if s.fold != nil {
		s.cancelFold()
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close checkpoint %s: %w", s.path, err)
	}
	return nil
}

// Load implements checkpoint.Store.
func (s *Store) Load(ctx context.Context, key checkpoint.Key) (checkpoint.State, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.State{}, err
	}
	var state checkpoint.State
	err := s.view(func(tx *bbolt.Tx) (err error) {
		b := bucketOf(tx, key.Stream, key.Shard)
		if state, err = load(b, key); err != nil {
			return err
		}
		if state.Ledger, err = loadLedger(b, key); err != nil {
			return err
		}
		if state.Published, err = (parts{b, key, publishedBucket}).load(); err != nil {
			return err
		}
		state.Journals, err = loadJournals(b, key)
		return err
	})
	if err != nil {
		return checkpoint.State{}, fmt.Errorf("load the checkpoint of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return state, nil
}

// Save implements checkpoint.Store. After an error the store goes on working unless the error says that bridge must be
// restarted; a disk that was full heals by itself.
func (s *Store) Save(ctx context.Context, key checkpoint.Key, state checkpoint.State) error {
	err := validName(key)
	if err == nil {
		err = state.Check()
	}
	if err == nil {
		value := seal(checkpoint.AppendState(nil, state), shardBucket, key.Stream, key.Shard, stateKey)
		journals := journalForms(key, state.Journals)
		// The database keeps values as they are until the transaction ends.
		defer free(journals)
		recent := &addition{key: key, forms: recentForms(state.View)}
		err = s.commit(ctx, recent, func(tx *bbolt.Tx) error {
			b, err := makeBucket(tx, key)
			if err != nil {
				return err
			}
			if err := b.Put([]byte(stateKey), value); err != nil {
				return err
			}
			if err := saveJournals(b, state.Keep, journals); err != nil {
				return err
			}
			if err := saveLedger(b, key, &state); err != nil {
				return err
			}
			if err := (parts{b, key, publishedBucket}).save(state.Published, state.ReplacePublished); err != nil {
				return err
			}
			if err := saveMeaning(b, key, state.Meaning); err != nil {
				return err
			}
			if err := saveGiven(b, key, &state); err != nil {
				return err
			}
			return recent.put(b)
		})
	}
	if err != nil {
		return fmt.Errorf("save the checkpoint of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return nil
}

// List implements checkpoint.Store.
func (s *Store) List(ctx context.Context) ([]checkpoint.Entry, error) {
	var entries []checkpoint.Entry
	err := s.view(func(tx *bbolt.Tx) error {
		return eachShard(tx, func(key checkpoint.Key, b *bbolt.Bucket) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			state, err := load(b, key)
			if errors.Is(err, checkpoint.ErrNotFound) {
				return nil
			}
			entries = append(entries, checkpoint.Entry{Key: key, State: state})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return entries, nil
}

// Delete implements checkpoint.Store.
func (s *Store) Delete(ctx context.Context, stream string) (int, error) {
	n := 0
	err := s.alone(ctx, func() error {
		err := s.update(func(tx *bbolt.Tx) (err error) {
			n, err = deleteStream(tx, stream)
			return err
		})
		if err != nil {
			return err
		}
		if s.fold != nil && s.fold.key.Stream == stream {
			s.cancelFold()
			s.fold = nil
		}
		s.overlay.dropStream(stream)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete the checkpoints of stream %s: %w", stream, err)
	}
	return n, nil
}

// deleteStream removes the bucket of a stream and returns how many states it had.
func deleteStream(tx *bbolt.Tx, stream string) (n int, err error) {
	b := bucketOf(tx, stream)
	if b == nil {
		return 0, nil
	}
	err = b.ForEachBucket(func(shard []byte) error {
		if b.Bucket(shard).Get([]byte(stateKey)) != nil {
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, tx.Bucket([]byte(shardBucket)).DeleteBucket([]byte(stream))
}

// view runs f on the newest saved states.
func (s *Store) view(f func(*bbolt.Tx) error) error {
	return s.guard(func() error { return s.db.View(f) })
}

func validName(key checkpoint.Key) error {
	for _, name := range []string{key.Stream, key.Shard} {
		if name == "" || len(name) > maxName {
			return fmt.Errorf("the name %.40q has %d bytes, 1 to %d are possible", name, len(name), maxName)
		}
	}
	return nil
}

// bucketOf returns the bucket of a stream or, with a second name, of its shard; nil where there is none.
func bucketOf(tx *bbolt.Tx, names ...string) *bbolt.Bucket {
	b := tx.Bucket([]byte(shardBucket))
	for _, name := range names {
		if b == nil || name == "" {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// makeBucket returns the bucket of a shard and makes it first where there is none.
func makeBucket(tx *bbolt.Tx, key checkpoint.Key) (*bbolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists([]byte(shardBucket))
	if err != nil {
		return nil, err
	}
	if b, err = b.CreateBucketIfNotExists([]byte(key.Stream)); err != nil {
		return nil, err
	}
	return b.CreateBucketIfNotExists([]byte(key.Shard))
}

// load returns the state in the bucket of a shard, which may be nil.
func load(b *bbolt.Bucket, key checkpoint.Key) (checkpoint.State, error) {
	if b == nil {
		return checkpoint.State{}, checkpoint.ErrNotFound
	}
	value := b.Get([]byte(stateKey))
	if value == nil {
		return checkpoint.State{}, checkpoint.ErrNotFound
	}
	payload, err := unseal(value, shardBucket, key.Stream, key.Shard, stateKey)
	if err != nil {
		return checkpoint.State{}, err
	}
	state, err := checkpoint.DecodeState(payload)
	if err == nil {
		state.Meaning, err = loadMeaning(b, key)
	}
	return state, err
}

// eachShard calls f for the bucket of every shard, in the order of stream and shard.
func eachShard(tx *bbolt.Tx, f func(key checkpoint.Key, b *bbolt.Bucket) error) error {
	streams := tx.Bucket([]byte(shardBucket))
	if streams == nil {
		return nil
	}
	return streams.ForEachBucket(func(stream []byte) error {
		shards := streams.Bucket(stream)
		return shards.ForEachBucket(func(shard []byte) error {
			return f(checkpoint.Key{Stream: string(stream), Shard: string(shard)}, shards.Bucket(shard))
		})
	})
}
