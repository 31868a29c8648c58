package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"bridge/checkpoint/store"
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

// Load returns the progress of all shards, the offsets and the fence.
func (s *Store) Load(ctx context.Context) (store.Image, error) {
	image := store.Image{Shards: map[store.Key]store.Progress{}, TPs: map[string]store.Offset{}}
	if err := s.usable(ctx); err != nil {
		return image, err
	}
	snapshot := s.db.NewSnapshot()
	err := each(snapshot, []byte{fenceTag}, func(_, value []byte) (err error) {
		image.Fence, err = decodeFence(value)
		return err
	})
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
	if err == nil {
		err = each(snapshot, []byte{offsetTag}, func(key, value []byte) error {
			number, err := numberIn(key)
			tp, ok := s.names.text(tpName, number)
			o, failed := decodeOffset(value)
			if err != nil || failed != nil || !ok {
				return fmt.Errorf("offset of topic-partition %d: %w", number, errForm)
			}
			image.TPs[tp] = o
			return nil
		})
	}
	return image, s.failed(errors.Join(err, snapshot.Close()))
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

// unpack returns an entry with its names.
func (s *Store) unpack(value []byte) (store.Entry, error) {
	p, err := decodeEntry(value)
	if err != nil {
		return store.Entry{}, err
	}
	var ok bool
	if p.entry.Shard, ok = s.names.text(shardName, p.shard); !ok {
		return store.Entry{}, fmt.Errorf("shard %d has no name: %w", p.shard, errForm)
	}
	if p.tp > 0 {
		if p.entry.TP, ok = s.names.text(tpName, p.tp-1); !ok {
			return store.Entry{}, fmt.Errorf("topic-partition %d has no name: %w", p.tp-1, errForm)
		}
	}
	return p.entry, nil
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, entities [][]byte, dst []store.Entry) (_ []store.Entry, err error) {
	number, ok := s.names.find(name{streamName, stream, ""})
	if err := s.usable(ctx); err != nil || !ok {
		return append(dst, make([]store.Entry, len(entities))...), err
	}
	prefix := numbered(entryTag, number)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return dst, s.failed(err)
	}
	key := append([]byte(nil), prefix...)
	for _, entity := range entities {
		key = append(key[:len(prefix)], entity...)
		var e store.Entry
		if it.SeekPrefixGE(key) && bytes.Equal(it.Key(), key) {
			if e, err = s.unpack(it.Value()); err != nil {
				break
			}
		}
		if err = it.Error(); err != nil {
			break
		}
		dst = append(dst, e)
	}
	return dst, s.failed(errors.Join(err, it.Close()))
}

// Scan returns the entries of a stream's view in the order of the entities' bytes.
func (s *Store) Scan(ctx context.Context, stream string, from []byte) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		number, ok := s.names.find(name{streamName, stream, ""})
		if err := s.usable(ctx); err != nil || !ok {
			if err != nil {
				yield(store.Change{}, err)
			}
			return
		}
		prefix := numbered(entryTag, number)
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: append(prefix[:5:5], from...), UpperBound: after(prefix)})
		if err != nil {
			yield(store.Change{}, s.failed(err))
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			var e store.Entry
			if e, err = s.unpack(it.Value()); err != nil {
				break
			}
			if err = context.Cause(ctx); err != nil {
				break
			}
			if !yield(store.Change{Entity: it.Key()[len(prefix):], Entry: e}, nil) {
				_ = it.Close() // nothing was written, and the caller wants no more
				return
			}
		}
		if err := errors.Join(err, it.Close()); err != nil {
			yield(store.Change{}, s.failed(err))
		}
	}
}
