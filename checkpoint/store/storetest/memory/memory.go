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

	"example.org/bridge/checkpoint/store"
)

// Store keeps a store in memory. Make one with New.
type Store struct {
	mu     sync.Mutex
	closed bool
	epoch  uint64
	shards map[store.Key]store.Progress
	tps    map[uint32]store.Registration
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
		shards: map[store.Key]store.Progress{},
		tps:    map[uint32]store.Registration{},
		parts:  map[partKey][]byte{},
		views:  map[string]map[string]store.Entry{},
	}
}

// Clone returns a copy of the store as it is now.
func (s *Store) Clone() *Store {
	defer s.locked()()
	c := New()
	c.epoch, c.shards, c.tps, c.parts = s.epoch, maps.Clone(s.shards), maps.Clone(s.tps), maps.Clone(s.parts)
	for stream, view := range s.views {
		c.views[stream] = maps.Clone(view)
	}
	return c
}

func (s *Store) locked() (unlock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// usable returns an error unless the store may be used. Its caller holds mu.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

// Load returns the epoch, the registrations and the progress of all shards.
func (s *Store) Load(ctx context.Context) (store.Image, error) {
	defer s.locked()()
	image := store.Image{Epoch: s.epoch, Shards: maps.Clone(s.shards)}
	for _, number := range slices.Sorted(maps.Keys(s.tps)) {
		image.Registrations = append(image.Registrations, s.tps[number])
	}
	return image, s.usable(ctx)
}

// Progress returns the progress of one shard.
func (s *Store) Progress(ctx context.Context, key store.Key) (p store.Progress, found bool, err error) {
	defer s.locked()()
	p, found = s.shards[key]
	return p, found, s.usable(ctx)
}

// Parts returns the parts of one kind of a shard.
func (s *Store) Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	return func(yield func(store.Part, error) bool) {
		unlock := s.locked()
		var numbers []uint64
		for k := range s.parts {
			if k.shard == key && k.kind == kind {
				numbers = append(numbers, k.number)
			}
		}
		slices.Sort(numbers)
		first, at := slices.BinarySearch(numbers, from)
		if !at {
			first = max(first-1, 0)
		}
		var list []store.Part
		for _, n := range numbers[min(first, len(numbers)):] {
			list = append(list, store.Part{Kind: kind, Number: n, Bytes: bytes.Clone(s.parts[partKey{key, kind, n}])})
		}
		err := s.usable(ctx)
		unlock()
		if err != nil {
			yield(store.Part{}, err)
			return
		}
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) ([]store.Entry, error) {
	defer s.locked()()
	for _, ask := range asks {
		dst = append(dst, s.views[stream][string(ask.Entity)])
	}
	return dst, s.usable(ctx)
}

// entries returns those of a view that are, in an order.
func (s *Store) entries(stream string, are func(*store.Entry) bool, compare func(a, b *store.Change) int) (list []store.Change) {
	for entity, e := range s.views[stream] {
		if are(&e) {
			list = append(list, store.Change{Entity: []byte(entity), Entry: e})
		}
	}
	slices.SortFunc(list, func(a, b store.Change) int { return cmp.Or(compare(&a, &b), bytes.Compare(a.Entity, b.Entity)) })
	return list
}

// ByRow appends the entries of a shard with a row above after to dst. It looks at all of the view.
func (s *Store) ByRow(ctx context.Context, key store.Key, after uint64, limit int, dst []store.Change) ([]store.Change, error) {
	defer s.locked()()
	all := s.entries(key.Stream, func(e *store.Entry) bool { return e.Row > after && e.State != store.Absent && e.Shard == key.Shard },
		func(a, b *store.Change) int { return cmp.Compare(a.Entry.Row, b.Entry.Row) })
	n := min(max(limit, 1), len(all))
	// The entries of one row stay together.
	for n > 0 && n < len(all) && all[n].Entry.Row == all[n-1].Entry.Row {
		n++
	}
	return append(dst, all[:n]...), s.usable(ctx)
}

// Scan returns the entries of a stream's view. It copies the view first.
func (s *Store) Scan(ctx context.Context, stream string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		unlock := s.locked()
		view, err := maps.Clone(s.views[stream]), s.usable(ctx)
		unlock()
		for entity, e := range view {
			if err != nil {
				break
			}
			if !yield(store.Change{Entity: []byte(entity), Entry: e}, nil) {
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
	defer s.locked()()
	if err := s.usable(ctx); err != nil {
		return err
	}
	for _, stream := range b.Forget {
		delete(s.views, stream)
		maps.DeleteFunc(s.tps, func(_ uint32, r store.Registration) bool { return r.Stream == stream })
		maps.DeleteFunc(s.shards, func(k store.Key, _ store.Progress) bool { return k.Stream == stream })
		maps.DeleteFunc(s.parts, func(k partKey, _ []byte) bool { return k.shard.Stream == stream })
	}
	if b.Epoch > 0 {
		s.epoch = b.Epoch
	}
	for _, r := range b.Registrations {
		s.tps[r.Number] = r
	}
	for _, c := range b.Shards {
		if c.Remove {
			delete(s.shards, c.Key)
			maps.DeleteFunc(s.parts, func(k partKey, _ []byte) bool { return k.shard == c.Key })
		}
		if c.Progress != nil {
			p := *c.Progress
			// As stores keep it.
			p.Saved = time.UnixMicro(p.Saved.UnixMicro()).UTC()
			s.shards[c.Key] = p
		}
		if len(c.Clear) > 0 {
			maps.DeleteFunc(s.parts, func(k partKey, _ []byte) bool { return k.shard == c.Key && slices.Contains(c.Clear, k.kind) })
		}
		for _, p := range c.Parts {
			if key := (partKey{c.Key, p.Kind, p.Number}); p.Bytes == nil {
				delete(s.parts, key)
			} else {
				s.parts[key] = bytes.Clone(p.Bytes)
			}
		}
	}
	for _, v := range b.Views {
		if s.views[v.Stream] == nil {
			s.views[v.Stream] = map[string]store.Entry{}
		}
		for _, c := range v.Changes {
			if s.views[v.Stream][string(c.Entity)] = c.Entry; c.Entry.State == store.Unknown {
				delete(s.views[v.Stream], string(c.Entity))
			}
		}
	}
	return nil
}

// ForgetAbsent removes entities that were found absent before the given time.
func (s *Store) ForgetAbsent(ctx context.Context, of store.Key, before time.Time, limit int) (int, error) {
	defer s.locked()()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	absent := s.entries(of.Stream, func(e *store.Entry) bool {
		return e.State == store.Absent && e.Since.Before(before) && (of.Shard == "" || of.Shard == e.Shard)
	}, func(a, b *store.Change) int { return a.Entry.Since.Compare(b.Entry.Since) })
	absent = absent[:min(len(absent), max(limit, 0))]
	for i := range absent {
		delete(s.views[of.Stream], string(absent[i].Entity))
	}
	return len(absent), nil
}

// Damaged returns nil: there is no damage.
func (s *Store) Damaged() <-chan struct{} { return nil }

// Sync has nothing to do.
func (s *Store) Sync(ctx context.Context) error {
	defer s.locked()()
	return s.usable(ctx)
}

// Close makes the store refuse all further calls.
func (s *Store) Close() error {
	defer s.locked()()
	s.closed = true
	return nil
}
