package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
)

// Store keeps a store in memory. Make one with New.
type Store struct {
	mu     sync.RWMutex
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := New()
	c.epoch, c.shards, c.tps, c.parts = s.epoch, maps.Clone(s.shards), maps.Clone(s.tps), maps.Clone(s.parts)
	for stream, view := range s.views {
		c.views[stream] = maps.Clone(view)
	}
	return c
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	image := store.Image{Epoch: s.epoch, Shards: maps.Clone(s.shards)}
	for _, number := range slices.Sorted(maps.Keys(s.tps)) {
		image.Registrations = append(image.Registrations, s.tps[number])
	}
	return image, s.usable(ctx)
}

// Progress returns the progress of one shard.
func (s *Store) Progress(ctx context.Context, key store.Key) (p store.Progress, found bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, found = s.shards[key]
	return p, found, s.usable(ctx)
}

// Parts returns the parts of one kind of a shard.
func (s *Store) Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	return func(yield func(store.Part, error) bool) {
		var list []store.Part
		first := uint64(0)
		s.mu.RLock()
		for k, b := range s.parts {
			if k.shard == key && k.kind == kind {
				list = append(list, store.Part{Kind: kind, Number: k.number, Bytes: bytes.Clone(b)})
				if k.number <= from {
					first = max(first, k.number)
				}
			}
		}
		err := s.usable(ctx)
		s.mu.RUnlock()
		if err != nil {
			yield(store.Part{}, err)
			return
		}
		slices.SortFunc(list, func(a, b store.Part) int { return cmp.Compare(a.Number, b.Number) })
		for _, p := range list {
			if p.Number >= first && !yield(p, nil) {
				return
			}
		}
	}
}

// Lookup appends the entries of entities to dst.
func (s *Store) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) ([]store.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ask := range asks {
		dst = append(dst, s.views[stream][string(ask.Entity)])
	}
	return dst, s.usable(ctx)
}

// ByRow appends the entries of a shard with a row above after to dst. It looks at all of the view.
func (s *Store) ByRow(ctx context.Context, key store.Key, after uint64, limit int, dst []store.Change) ([]store.Change, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	type found struct {
		row    uint64
		entity string
	}
	var all []found
	highest := uint64(math.MaxUint64)
	// cut leaves the lowest rows; the entries of one row stay together.
	cut := func() {
		slices.SortFunc(all, func(a, b found) int { return cmp.Or(cmp.Compare(a.row, b.row), strings.Compare(a.entity, b.entity)) })
		if n := max(limit, 1); len(all) > n {
			highest = all[n-1].row
			all = slices.DeleteFunc(all, func(f found) bool { return f.row > highest })
		}
	}
	for entity, e := range s.views[key.Stream] {
		if e.Row <= after || e.Row > highest || e.State == store.Absent || e.Shard != key.Shard {
			continue
		}
		if all = append(all, found{e.Row, entity}); len(all)/2 > limit {
			cut()
		}
	}
	cut()
	for _, f := range all {
		dst = append(dst, store.Change{Entity: []byte(f.entity), Entry: s.views[key.Stream][f.entity]})
	}
	return dst, s.usable(ctx)
}

// Scan returns the entries of a stream's view. It copies the view first.
func (s *Store) Scan(ctx context.Context, stream string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		s.mu.RLock()
		view, err := maps.Clone(s.views[stream]), s.usable(ctx)
		s.mu.RUnlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	view := s.views[of.Stream]
	var absent []string
	for entity, e := range view {
		if e.State == store.Absent && e.Since.Before(before) && (of.Shard == "" || of.Shard == e.Shard) {
			absent = append(absent, entity)
		}
	}
	slices.SortFunc(absent, func(a, b string) int {
		return cmp.Or(view[a].Since.Compare(view[b].Since), cmp.Compare(a, b))
	})
	absent = absent[:min(len(absent), max(limit, 0))]
	for _, entity := range absent {
		delete(view, entity)
	}
	return len(absent), nil
}

// Damaged returns nil: there is no damage.
func (s *Store) Damaged() <-chan struct{} { return nil }

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
