package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"example.org/bridge/checkpoint/store"
)

// each calls f with the keys, without prefix, and values of one image that begin with prefix.
func each(from pebble.Reader, prefix []byte, f func(key, value []byte) error) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key()[len(prefix):], it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// numberIn returns the number that a key consists of.
func numberIn(key []byte) (uint32, error) {
	if len(key) != 4 {
		return 0, errForm
	}
	return binary.BigEndian.Uint32(key), nil
}

// loadNames reads the names at Open.
func (s *Store) loadNames() error {
	err := each(s.db, []byte{nameTag}, func(key, value []byte) error {
		if len(key) != 5 {
			return errForm
		}
		n, err := decodeName(nameKind(key[0]), value)
		if err != nil {
			return err
		}
		if number := s.names.append(n); number != binary.BigEndian.Uint32(key[1:]) {
			return fmt.Errorf("name %d is missing: %w", number, errForm)
		}
		return nil
	})
	if err != nil && (errors.Is(err, errForm) || pebble.IsCorruptionError(err)) {
		return fmt.Errorf("%w: %w", err, errUnusable)
	}
	return err
}

// eachRegistration calls f with the registrations in the order of their numbers.
func (s *Store) eachRegistration(from pebble.Reader, f func(r store.Registration)) error {
	return each(from, []byte{registrationTag}, func(key, value []byte) error {
		number, err := numberIn(key)
		r, failed := decodeRegistration(number, value)
		if err != nil || failed != nil {
			return fmt.Errorf("registration %d: %w", number, errForm)
		}
		f(r)
		return nil
	})
}

// Load returns the epoch, the registrations and the progress of all shards.
func (s *Store) Load(ctx context.Context) (store.Image, error) {
	image := store.Image{Shards: map[store.Key]store.Progress{}}
	if err := s.usable(ctx); err != nil {
		return image, err
	}
	snapshot := s.db.NewSnapshot()
	err := each(snapshot, []byte{epochTag}, func(_, value []byte) (err error) {
		image.Epoch, err = decodeEpoch(value)
		return err
	})
	if err == nil {
		err = s.eachRegistration(snapshot, func(r store.Registration) { image.Registrations = append(image.Registrations, r) })
	}
	if err == nil {
		err = each(snapshot, []byte{progressTag}, func(key, value []byte) error {
			number, err := numberIn(key)
			shard, ok := s.names.shard(number)
			p, failed := decodeProgress(value)
			if err != nil || failed != nil || !ok {
				return fmt.Errorf("progress of shard %d: %w", number, errForm)
			}
			image.Shards[shard] = p
			return nil
		})
	}
	return image, s.failed(errors.Join(err, snapshot.Close()))
}

// Progress returns the progress of one shard.
func (s *Store) Progress(ctx context.Context, key store.Key) (p store.Progress, found bool, err error) {
	number, ok := s.names.find(shardOf(key))
	if err := s.usable(ctx); err != nil || !ok {
		return p, false, err
	}
	value, closer, err := s.db.Get(numbered(progressTag, number))
	if errors.Is(err, pebble.ErrNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, s.failed(err)
	}
	p, err = decodeProgress(value)
	return p, err == nil, s.failed(errors.Join(err, closer.Close()))
}

// Parts returns the parts of one kind of a shard.
func (s *Store) Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	return func(yield func(store.Part, error) bool) {
		number, ok := s.names.find(shardOf(key))
		if err := s.usable(ctx); err != nil || !ok {
			if err != nil {
				yield(store.Part{}, err)
			}
			return
		}
		prefix := append(numbered(partTag, number), byte(kind))
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			yield(store.Part{}, s.failed(err))
			return
		}
		ok = it.SeekGE(partKey(number, kind, from))
		if at := partKey(number, kind, from); !ok || !bytes.Equal(it.Key(), at) {
			if ok = it.SeekLT(at); !ok {
				ok = it.First()
			}
		}
		for ; ok; ok = it.Next() {
			if len(it.Key()) != len(prefix)+8 {
				err = errForm
				break
			}
			part := store.Part{Kind: kind, Number: binary.BigEndian.Uint64(it.Key()[len(prefix):]), Bytes: append([]byte{}, it.Value()...)}
			if !yield(part, nil) {
				_ = it.Close() // nothing was written, and the caller wants no more
				return
			}
		}
		if err := errors.Join(err, it.Close()); err != nil {
			yield(store.Part{}, s.failed(err))
		}
	}
}

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

// The seconds since 1970 of the years 1 to 9999.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// disputedFlag is added to the state of an entry that is disputed.
const disputedFlag = 0x80

// second returns the seconds from the year 1 to t, rounded up, as keys have them.
func second(t time.Time) uint64 {
	return uint64(t.Add(time.Second-1).Unix() - minSecond)
}

// appendState appends the state of an entry, and whether it is disputed.
func appendState(dst []byte, e *store.Entry) []byte {
	if e.Disputed {
		return append(dst, byte(e.State)|disputedFlag)
	}
	return append(dst, byte(e.State))
}

// state reads what appendState wrote.
func (r *reader) state(e *store.Entry) {
	b := r.byte()
	e.State, e.Disputed = store.EntryState(b&^disputedFlag), b&disputedFlag != 0
	if e.State == store.Unknown || e.State > store.Recorded {
		r.fail()
	}
}

// appendEntry appends an entry without what its key has: the shard and row or, of an absent one,
// the time.
func appendEntry(dst []byte, shard uint32, e *store.Entry) []byte {
	dst = appendState(dst, e)
	if e.State == store.Absent {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(shard)), e.Row)
	} else {
		dst = append(dst, e.Digest[:]...)
	}
	dst = append(dst, e.Event[:]...)
	dst = binary.AppendUvarint(dst, uint64(e.At.TP))
	// BeforeFirst becomes 0, and is short.
	dst = binary.AppendUvarint(dst, e.At.Offset+1)
	dst = binary.AppendUvarint(dst, e.Epoch)
	return binary.AppendUvarint(dst, e.Seq)
}

// decodeEntry returns the entry at a location, and the number of its shard in place of the name.
func decodeEntry(at location, b []byte) (e store.Entry, shard uint32, err error) {
	r := reader{rest: b}
	r.state(&e)
	if at.absent != (e.State == store.Absent) {
		r.fail()
	}
	shard, e.Row = at.shard, at.row
	if at.absent {
		if at.row > maxSecond-minSecond {
			r.fail()
		}
		e.Since = time.Unix(int64(at.row)+minSecond, 0).UTC()
		shard, e.Row = r.number(), r.uint()
	} else {
		copy(e.Digest[:], r.bytes(16))
	}
	copy(e.Event[:], r.bytes(16))
	e.At = store.At{TP: r.number(), Offset: r.uint() - 1}
	e.Epoch, e.Seq = r.uint(), r.uint()
	return e, shard, r.end()
}

const (
	// filterWords is the size of a filter, 16 MiB.
	filterWords = 1 << 21
	// maxFiltered is how many entries a filter takes: of the unknown ones it then misses 5 of 100.
	maxFiltered = 16_000_000
)

// filter is a Bloom filter, in memory, of the hashes of all entries in a store that this process
// has made: it says without a lookup that an entity is unknown. Catch-up without a store asks that
// of most entities. The nil filter knows nothing.
type filter struct {
	words []atomic.Uint64
	added int
}

func newFilter() *filter { return &filter{words: make([]atomic.Uint64, filterWords)} }

// bits returns where the bits of a hash in a stream are: a word, and two of its bits.
func (f *filter) bits(stream uint32, hash uint64) (word *atomic.Uint64, mask uint64) {
	hash += uint64(stream) * 0x9e3779b97f4a7c15
	return &f.words[hash%filterWords], 1<<(hash>>52&63) | 1<<(hash>>58)
}

// lacks reports whether the store has no entry with the hash, now.
func (f *filter) lacks(stream uint32, hash uint64) bool {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	return word.Load()&mask != mask
}

// add adds a hash before its entry is applied. One batch at a time adds. It reports whether the
// filter is full, and of no more use.
func (f *filter) add(stream uint32, hash uint64) (full bool) {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	if word.Load()&mask != mask {
		word.Or(mask)
		f.added++
	}
	return f.added > maxFiltered
}
