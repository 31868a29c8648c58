package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"bridge/checkpoint/store"
)

// Store keeps a store in memory. Make one with New.
type Store struct {
	mu     sync.RWMutex
	closed bool
	image  store.Image
	parts  map[partKey][]byte
	views  map[string]map[string]store.Entry
}

var _ store.Store = (*Store)(nil)

type partKey struct {
	shard  store.Key
	kind   store.Kind
	number uint64
}

// New returns an empty store.
func New() *Store {
	return &Store{
		image: store.Image{Shards: map[store.Key]store.Progress{}, TPs: map[string]store.Offset{}},
		parts: map[partKey][]byte{},
		views: map[string]map[string]store.Entry{},
	}
}

// usable returns an error unless the store may be used. Its caller holds mu.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

// Load returns the progress of all shards, the offsets and the fence.
func (s *Store) Load(ctx context.Context) (store.Image, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	image := s.image
	image.Shards, image.TPs = maps.Clone(image.Shards), maps.Clone(image.TPs)
	return image, s.usable(ctx)
}

// Parts returns the parts of one kind of a shard.
func (s *Store) Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	return func(yield func(store.Part, error) bool) {
		list, err := s.partsOf(ctx, key, kind)
		if err != nil {
			yield(store.Part{}, err)
			return
		}
		first, found := slices.BinarySearchFunc(list, from, func(p store.Part, n uint64) int { return cmp.Compare(p.Number, n) })
		if !found && first > 0 {
			first--
		}
		for _, p := range list[first:] {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// partsOf returns copies of the parts, in the order of their numbers.
func (s *Store) partsOf(ctx context.Context, key store.Key, kind store.Kind) ([]store.Part, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []store.Part
	for k, b := range s.parts {
		if k.shard == key && k.kind == kind {
			list = append(list, store.Part{Kind: kind, Number: k.number, Bytes: bytes.Clone(b)})
		}
	}
	slices.SortFunc(list, func(a, b store.Part) int { return cmp.Compare(a.Number, b.Number) })
	return list, s.usable(ctx)
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, entities [][]byte, dst []store.Entry) ([]store.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, entity := range entities {
		dst = append(dst, s.views[stream][string(entity)])
	}
	return dst, s.usable(ctx)
}

// Scan returns the entries of a stream's view in the order of the entities' bytes. It copies the
// view first.
func (s *Store) Scan(ctx context.Context, stream string, from []byte) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		s.mu.RLock()
		view, err := maps.Clone(s.views[stream]), s.usable(ctx)
		s.mu.RUnlock()
		for _, entity := range slices.Sorted(maps.Keys(view)) {
			if err != nil {
				break
			}
			if entity < string(from) {
				continue
			}
			if !yield(store.Change{Entity: []byte(entity), Entry: view[entity]}, nil) {
				return
			}
			err = context.Cause(ctx)
		}
		if err != nil {
			yield(store.Change{}, err)
		}
	}
}

// Apply makes all changes of a batch, or none.
func (s *Store) Apply(ctx context.Context, b *store.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	for _, stream := range b.Forget {
		s.forget(stream)
	}
	if b.Fence != nil {
		s.image.Fence = *b.Fence
	}
	maps.Copy(s.image.TPs, b.TPs)
	for i := range b.Shards {
		s.shard(&b.Shards[i])
	}
	for _, v := range b.Views {
		if s.views[v.Stream] == nil {
			s.views[v.Stream] = map[string]store.Entry{}
		}
		for _, c := range v.Changes {
			if c.Entry.Fate == store.None {
				delete(s.views[v.Stream], string(c.Entity))
			} else {
				s.views[v.Stream][string(c.Entity)] = c.Entry
			}
		}
	}
	return nil
}

func (s *Store) forget(stream string) {
	delete(s.views, stream)
	maps.DeleteFunc(s.image.Shards, func(k store.Key, _ store.Progress) bool { return k.Stream == stream })
	maps.DeleteFunc(s.parts, func(k partKey, _ []byte) bool { return k.shard.Stream == stream })
}

func (s *Store) shard(c *store.ShardChange) {
	if p := c.Progress; p != nil {
		rounded := *p
		rounded.Saved, rounded.Reading.At = micros(p.Saved), micros(p.Reading.At)
		s.image.Shards[c.Key] = rounded
	}
	for _, kind := range c.Clear {
		maps.DeleteFunc(s.parts, func(k partKey, _ []byte) bool { return k.shard == c.Key && k.kind == kind })
	}
	for _, p := range c.Parts {
		if key := (partKey{c.Key, p.Kind, p.Number}); p.Bytes == nil {
			delete(s.parts, key)
		} else {
			s.parts[key] = bytes.Clone(p.Bytes)
		}
	}
}

// micros returns t as stores keep it.
func micros(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// Sync has nothing to do.
func (s *Store) Sync(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.usable(ctx)
}

// Close makes the store refuse all further calls.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
