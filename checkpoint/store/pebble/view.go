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
	"time"

	"github.com/cockroachdb/pebble/v2"

	"example.org/bridge/checkpoint/store"
)

// unpack returns the entry at a location, with its names.
func (s *Store) unpack(at location, value []byte) (store.Entry, error) {
	e, shard, err := decodeEntry(at, value)
	if err != nil {
		return store.Entry{}, err
	}
	var ok bool
	if e.Shard, ok = s.names.text(shardName, shard); !ok {
		return store.Entry{}, fmt.Errorf("shard %d has no name: %w", shard, errForm)
	}
	return e, nil
}

// finder finds entries by their entities, in one image. Hashes are often unknown and are looked up
// by the filters of files; an entry mostly lies where it is looked for, and its filters would take
// memory for nothing.
type finder struct {
	hashes  *pebble.Iterator
	entries *pebble.Iterator
	key     []byte
	// err is the first error: an iterator forgets it with its next seek, and what is behind it
	// would look unknown.
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

// end returns what has failed, and ends the use of f.
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

// locations appends to dst the locations of the entities with a hash.
func (f *finder) locations(stream uint32, hash uint64, dst []location) ([]location, error) {
	f.key = appendHashKey(f.key[:0], stream, hash)
	if !f.seek(f.hashes) {
		return dst, f.err
	}
	return decodeLocations(dst, f.hashes.Value())
}

// entry reports whether the entry of an entity lies at a location. It is the value of entries then.
func (f *finder) entry(at location, stream uint32, entity []byte) bool {
	f.key = append(at.appendPrefix(f.key[:0], stream), entity...)
	return f.seek(f.entries)
}

// sought is an entity that is looked up, by its index in the call; found is one that may lie at a
// location.
type (
	sought struct {
		hash  uint64
		index int32
	}
	found struct {
		at    location
		index int32
	}
)

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) (_ []store.Entry, err error) {
	first := len(dst)
	dst = append(dst, make([]store.Entry, len(asks))...)
	number, ok := s.names.find(name{streamName, stream, ""})
	if err := s.usable(ctx); err != nil || !ok {
		return dst, err
	}
	f, err := s.newFinder()
	if err != nil {
		return dst[:first], s.failed(err)
	}
	err = s.lookup(f, stream, number, asks, dst[first:])
	if err = errors.Join(err, f.end()); err != nil {
		dst = dst[:first]
	}
	return dst, s.failed(err)
}

// lookup finds entries: first where asks say, then by their hashes. Seeks are fastest in the order
// of keys.
func (s *Store) lookup(f *finder, stream string, number uint32, asks []store.Ask, into []store.Entry) (err error) {
	// Behind the iterator: what is applied from now on is not in its image.
	fresh := s.fresh.Load()
	list := make([]sought, len(asks))
	for i := range asks {
		list[i] = sought{s.hash(asks[i].Entity), int32(i)}
	}
	// In a loop of its own: the processor waits for several words of the filter at once.
	list = slices.DeleteFunc(list, func(one sought) bool { return fresh.lacks(number, one.hash) })
	var shard numberedName
	known, missed := false, list[:0]
	for _, one := range list {
		ask := &asks[one.index]
		if of := (name{shardName, ask.Shard, stream}); of != shard.name {
			shard.name = of
			shard.number, known = s.names.find(of)
		}
		if at := (location{shard: shard.number, row: ask.Row}); known && f.entry(at, number, ask.Entity) {
			if into[one.index], err = s.unpack(at, f.entries.Value()); err != nil {
				return err
			}
			continue
		}
		missed = append(missed, one)
	}
	list = missed
	slices.SortFunc(list, func(a, b sought) int { return cmp.Compare(a.hash, b.hash) })
	var locations []found
	var at []location
	for _, one := range list {
		if at, err = f.locations(number, one.hash, at[:0]); err != nil {
			return err
		}
		for _, p := range at {
			locations = append(locations, found{p, one.index})
		}
	}
	slices.SortFunc(locations, func(a, b found) int { return a.at.compare(b.at) })
	for _, one := range locations {
		if f.entry(one.at, number, asks[one.index].Entity) {
			if into[one.index], err = s.unpack(one.at, f.entries.Value()); err != nil {
				return err
			}
		}
	}
	return nil
}

// ByRow appends the entries of a shard with a row above after to dst.
func (s *Store) ByRow(ctx context.Context, key store.Key, above uint64, limit int, dst []store.Change) (_ []store.Change, err error) {
	shard, ok := s.names.find(shardOf(key))
	if err := s.usable(ctx); err != nil || !ok || above == 1<<64-1 {
		return dst, err
	}
	rows := numbered(entryTag, shard)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: binary.BigEndian.AppendUint64(rows, above+1), UpperBound: after(rows)})
	if err != nil {
		return dst, s.failed(err)
	}
	first := len(dst)
	for ok := it.First(); ok; ok = it.Next() {
		at, entity, failed := split(it.Key())
		if err = failed; err != nil {
			break
		}
		if n := len(dst); n-first >= max(limit, 1) && at.row != dst[n-1].Entry.Row {
			break
		}
		var e store.Entry
		if e, err = s.unpack(at, it.Value()); err != nil {
			break
		}
		dst = append(dst, store.Change{Entity: bytes.Clone(entity), Entry: e})
	}
	return dst, s.failed(errors.Join(err, it.Close()))
}

// Scan returns the entries of a stream's view, in the order of the store's keys.
func (s *Store) Scan(ctx context.Context, stream string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		number, ok := s.names.find(name{streamName, stream, ""})
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
		for _, prefix := range prefixes {
			if err = s.scan(ctx, snapshot, prefix, yield); err != nil {
				break
			}
		}
		if err = errors.Join(err, snapshot.Close()); err != nil && !errors.Is(err, errEnough) {
			yield(store.Change{}, s.failed(err))
		}
	}
}

// errEnough is returned inside the package where the caller of Scan wants no more.
var errEnough = errors.New("enough")

// scan yields the entries whose keys begin with a prefix.
func (s *Store) scan(ctx context.Context, from pebble.Reader, prefix []byte, yield func(store.Change, error) bool) error {
	return each(from, prefix, func(key, value []byte) error {
		at, entity, err := split(append(prefix[:5:5], key...))
		if err != nil {
			return err
		}
		e, err := s.unpack(at, value)
		if err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !yield(store.Change{Entity: entity, Entry: e}, nil) {
			return errEnough
		}
		return nil
	})
}

// ForgetAbsent removes entities that were found absent before the given time.
func (s *Store) ForgetAbsent(ctx context.Context, stream string, before time.Time, limit int) (int, error) {
	number, ok := s.names.find(name{streamName, stream, ""})
	if err := s.writable(ctx); err != nil || !ok {
		return 0, err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	prefix := numbered(absentTag, number)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: binary.BigEndian.AppendUint64(prefix[:5:5], second(before))})
	if err != nil {
		return 0, s.failed(err)
	}
	gone := store.ViewChange{Stream: stream}
	for ok := it.First(); ok && len(gone.Changes) < limit; ok = it.Next() {
		_, entity, failed := split(it.Key())
		if err = failed; err != nil {
			break
		}
		gone.Changes = append(gone.Changes, store.Change{Entity: bytes.Clone(entity)})
	}
	if err = errors.Join(err, it.Close()); err == nil {
		err = s.apply(&store.Batch{Views: []store.ViewChange{gone}})
	}
	if err != nil {
		return 0, s.failed(err)
	}
	return len(gone.Changes), nil
}
