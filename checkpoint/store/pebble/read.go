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
