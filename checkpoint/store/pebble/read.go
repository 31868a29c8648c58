package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"example.org/bridge/checkpoint/store"
)

// errEnough is returned by a function that each calls and that wants no more.
var errEnough = errors.New("enough")

// each calls f with the keys and values of one image from lower to below upper.
func each(from pebble.Reader, lower, upper []byte, f func(key, value []byte) error) error {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err = f(it.Key(), it.Value()); err != nil {
			break
		}
	}
	if err = errors.Join(err, it.Close()); errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func eachNumbered(from pebble.Reader, prefix []byte, f func(number uint32, value []byte) error) error {
	return each(from, prefix, after(prefix), func(key, value []byte) error {
		if len(key) != len(prefix)+4 {
			return errForm
		}
		number := binary.BigEndian.Uint32(key[len(prefix):])
		if err := f(number, value); err != nil {
			return fmt.Errorf("%c%d: %w", prefix[0], number, err)
		}
		return nil
	})
}

func (s *Store) loadNames() (err error) {
	for _, kind := range []nameKind{streamName, shardName} {
		err = errors.Join(err, eachNumbered(s.db, []byte{nameTag, byte(kind)}, func(number uint32, value []byte) error {
			n, err := decodeName(kind, value)
			if err == nil && s.names.append(n) != number {
				err = fmt.Errorf("a name before it is missing: %w", errForm)
			}
			return err
		}))
	}
	if err != nil && (errors.Is(err, errForm) || pebble.IsCorruptionError(err)) {
		return fmt.Errorf("%w: %w", err, errUnusable)
	}
	return err
}

func (s *Store) eachRegistration(from pebble.Reader, f func(r store.Registration)) error {
	return eachNumbered(from, []byte{registrationTag}, func(number uint32, value []byte) error {
		r, err := decodeRegistration(number, value)
		if err == nil {
			f(r)
		}
		return err
	})
}

// Load returns the epoch, the registrations and the progress of all shards.
func (s *Store) Load(ctx context.Context) (store.Image, error) {
	image := store.Image{Shards: map[store.Key]store.Progress{}}
	if err := s.usable(ctx); err != nil {
		return image, err
	}
	snapshot := s.db.NewSnapshot()
	err := each(snapshot, []byte{epochTag}, after([]byte{epochTag}), func(_, value []byte) (err error) {
		image.Epoch, err = decodeEpoch(value)
		return err
	})
	err = errors.Join(err,
		s.eachRegistration(snapshot, func(r store.Registration) { image.Registrations = append(image.Registrations, r) }),
		eachNumbered(snapshot, []byte{progressTag}, func(number uint32, value []byte) error {
			shard, unnamed := s.names.shard(number)
			p, err := decodeProgress(value)
			image.Shards[shard] = p
			return errors.Join(unnamed, err)
		}))
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
		err := s.usable(ctx)
		if err == nil && ok {
			err = s.failed(s.parts(number, kind, from, func(p store.Part) bool { return yield(p, nil) }))
		}
		if err != nil {
			yield(store.Part{}, err)
		}
	}
}

func (s *Store) parts(shard uint32, kind store.Kind, from uint64, yield func(store.Part) bool) error {
	prefix := append(numbered(partTag, shard), byte(kind))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	// The first key behind that of from.
	behind := append(partKey(shard, kind, from), 0)
	for ok := it.SeekLT(behind) || it.Error() == nil && it.First(); ok; ok = it.Next() {
		if len(it.Key()) != len(prefix)+8 {
			err = errForm
			break
		}
		part := store.Part{Kind: kind, Number: binary.BigEndian.Uint64(it.Key()[len(prefix):]), Bytes: append([]byte{}, it.Value()...)}
		if !yield(part) {
			_ = it.Close() // nothing was written, and the caller wants no more
			return nil
		}
	}
	return errors.Join(err, it.Close())
}

func (s *Store) unpack(at location, value []byte) (store.Entry, error) {
	e, number, err := decodeEntry(at, value)
	if err != nil {
		return store.Entry{}, err
	}
	shard, err := s.names.shard(number)
	e.Shard = shard.Shard
	return e, err
}

// finder finds entries in one image. Hashes are often unknown and are looked up by the filters of
// files; an entry mostly lies where it is looked for, and needs none.
type finder struct {
	hashes  *pebble.Iterator
	entries *pebble.Iterator
	key     []byte
	// err is the first error: an iterator forgets it with its next seek.
	err error
}

func (s *Store) newFinder() (*finder, error) {
	hashes, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, err
	}
	entries, err := hashes.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{}})
	if err != nil {
		return nil, errors.Join(err, hashes.Close())
	}
	return &finder{hashes: hashes, entries: entries}, nil
}

// end returns the first error, and ends the use of f.
func (f *finder) end() error {
	return errors.Join(f.err, f.hashes.Close(), f.entries.Close())
}

// seek reports whether f.key exists. An iterator is there then, until its next seek.
func (f *finder) seek(it *pebble.Iterator) bool {
	if f.err != nil {
		return false
	}
	found := it.SeekPrefixGE(f.key)
	f.err = it.Error()
	return found && bytes.Equal(it.Key(), f.key)
}

func (f *finder) locations(stream uint32, hash uint64, dst []location) []location {
	f.key = appendHashKey(f.key[:0], stream, hash)
	if f.seek(f.hashes) {
		dst, f.err = decodeLocations(dst, f.hashes.Value())
	}
	return dst
}

// entry reports whether the entry of an entity lies at a location. It is the value of entries then.
func (f *finder) entry(at location, stream uint32, entity []byte) bool {
	f.key = append(at.appendPrefix(f.key[:0], stream), entity...)
	return f.seek(f.entries)
}

// sought is an entity that is looked up, by its index in the call.
type sought struct {
	hash  uint64
	at    location
	index int32
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) (_ []store.Entry, err error) {
	first := len(dst)
	dst = append(dst, make([]store.Entry, len(asks))...)
	number, ok := s.names.find(streamOf(stream))
	if err := s.usable(ctx); err != nil || !ok {
		return dst, err
	}
	f, err := s.newFinder()
	if err != nil {
		return dst[:first], s.failed(err)
	}
	s.lookup(f, stream, number, asks, dst[first:])
	if err = f.end(); err != nil {
		dst = dst[:first]
	}
	return dst, s.failed(err)
}

// lookup looks first where asks say, then by hashes. Seeks are fastest in the order of keys.
func (s *Store) lookup(f *finder, stream string, number uint32, asks []store.Ask, into []store.Entry) {
	// Behind the iterator: batches applied from now on are not in its image.
	fresh := s.fresh.Load()
	list := make([]sought, len(asks))
	for i := range asks {
		list[i] = sought{hash: s.hash(asks[i].Entity), index: int32(i)}
	}
	// In a loop of its own: the processor waits for several words of the filter at once.
	list = slices.DeleteFunc(list, func(one sought) bool { return fresh.lacks(number, one.hash) })
	find := func(one sought) bool {
		if !f.entry(one.at, number, asks[one.index].Entity) {
			return false
		}
		into[one.index], f.err = s.unpack(one.at, f.entries.Value())
		return true
	}
	var shard name
	var shardNumber uint32
	known := false
	list = slices.DeleteFunc(list, func(one sought) bool {
		ask := &asks[one.index]
		if of := (name{shardName, ask.Shard, stream}); of != shard {
			shard = of
			shardNumber, known = s.names.find(of)
		}
		one.at = location{shard: shardNumber, row: ask.Row}
		return known && find(one)
	})
	slices.SortFunc(list, func(a, b sought) int { return cmp.Compare(a.hash, b.hash) })
	var maybe []sought
	var at []location
	for _, one := range list {
		at = f.locations(number, one.hash, at[:0])
		for _, one.at = range at {
			maybe = append(maybe, one)
		}
	}
	slices.SortFunc(maybe, func(a, b sought) int { return a.at.compare(b.at) })
	for _, one := range maybe {
		find(one)
	}
}

// ByRow appends the entries of a shard with a row above after to dst.
func (s *Store) ByRow(ctx context.Context, key store.Key, above uint64, limit int, dst []store.Change) ([]store.Change, error) {
	shard, ok := s.names.find(shardOf(key))
	if err := s.usable(ctx); err != nil || !ok || above == 1<<64-1 {
		return dst, err
	}
	first, rows := len(dst), numbered(entryTag, shard)
	err := each(s.db, binary.BigEndian.AppendUint64(rows, above+1), after(rows), func(key, value []byte) error {
		at, entity, err := split(key)
		if err != nil {
			return err
		}
		if n := len(dst); n-first >= max(limit, 1) && at.row != dst[n-1].Entry.Row {
			return errEnough
		}
		e, err := s.unpack(at, value)
		dst = append(dst, store.Change{Entity: bytes.Clone(entity), Entry: e})
		return err
	})
	if err != nil {
		dst = dst[:first]
	}
	return dst, s.failed(err)
}

// Scan returns the entries of a stream's view, in the order of the store's keys.
func (s *Store) Scan(ctx context.Context, stream string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		number, ok := s.names.find(streamOf(stream))
		if err := s.usable(ctx); err != nil || !ok {
			if err != nil {
				yield(store.Change{}, err)
			}
			return
		}
		prefixes := [][]byte{numbered(absentTag, number)}
		for _, shard := range s.names.shardsOf(stream) {
			prefixes = append(prefixes, numbered(entryTag, shard))
		}
		snapshot := s.db.NewSnapshot()
		var err error
		enough := false
		for _, prefix := range prefixes {
			err = errors.Join(err, each(snapshot, prefix, after(prefix), func(key, value []byte) error {
				at, entity, err := split(key)
				if err != nil {
					return err
				}
				e, err := s.unpack(at, value)
				if err = errors.Join(err, context.Cause(ctx)); err != nil {
					return err
				}
				if enough = !yield(store.Change{Entity: entity, Entry: e}, nil); enough {
					return errEnough
				}
				return nil
			}))
			if err != nil || enough {
				break
			}
		}
		if err = errors.Join(err, snapshot.Close()); err != nil && !enough {
			yield(store.Change{}, s.failed(err))
		}
	}
}
