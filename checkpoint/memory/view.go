package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"bridge/checkpoint"
	"bridge/source"
	"bridge/source/ledger"
)

// apply changes the view.
func (s *shard) apply(changes []checkpoint.Change) {
	for _, c := range changes {
		// As stores on disk keep it.
		known, _, err := checkpoint.DecodeKnown(checkpoint.AppendKnown(nil, c.Known))
		if err != nil || known.Fate == checkpoint.Unknown {
			delete(s.view, string(c.Entity))
		} else {
			s.view[string(c.Entity)] = known
		}
		s.byRow = nil
	}
}

// rows returns the live and soft-deleted entities in the order of their rows.
func (s *shard) rows() []checkpoint.Entity {
	if s.byRow != nil {
		return s.byRow
	}
	s.byRow = make([]checkpoint.Entity, 0, len(s.view))
	for entity, k := range s.view {
		if k.Fate != checkpoint.Gone {
			s.byRow = append(s.byRow, checkpoint.Entity{Row: k.Row, State: k.State, Fate: k.Fate, Entity: []byte(entity)})
		}
	}
	slices.SortFunc(s.byRow, func(a, b checkpoint.Entity) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), bytes.Compare(a.Entity, b.Entity))
	})
	return s.byRow
}

// read runs f on what is kept of a shard, if anything is.
func (s *Store) read(ctx context.Context, key checkpoint.Key, f func(*shard)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.shards[key]; kept != nil {
		f(kept)
	}
	return nil
}

// Lookup implements checkpoint.Views.
func (s *Store) Lookup(ctx context.Context, key checkpoint.Key, entities [][]byte, dst []checkpoint.Known) ([]checkpoint.Known, error) {
	start := len(dst)
	dst = slices.Grow(dst, len(entities))[:start+len(entities)]
	clear(dst[start:])
	err := s.read(ctx, key, func(kept *shard) {
		for i, entity := range entities {
			dst[start+i] = kept.view[string(entity)]
		}
	})
	return dst, err
}

// ByRow implements checkpoint.Views.
func (s *Store) ByRow(ctx context.Context, key checkpoint.Key, after uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, error) {
	err := s.read(ctx, key, func(kept *shard) {
		rows := kept.rows()
		from := sort.Search(len(rows), func(i int) bool { return rows[i].Row > after })
		to := min(from+limit, len(rows))
		for to > from && to < len(rows) && rows[to].Row == rows[to-1].Row {
			to++
		}
		for _, e := range rows[from:to] {
			e.Entity = bytes.Clone(e.Entity)
			dst = append(dst, e)
		}
	})
	return dst, err
}

// Forget implements checkpoint.Views.
func (s *Store) Forget(ctx context.Context, key checkpoint.Key, before time.Time, from []byte, limit int) (next []byte, err error) {
	err = s.read(ctx, key, func(kept *shard) {
		for _, entity := range slices.Sorted(maps.Keys(kept.view)) {
			if entity < string(from) {
				continue
			}
			if limit--; limit < 0 {
				next = []byte(entity)
				return
			}
			if k := kept.view[entity]; k.Fate == checkpoint.Gone && k.Since.Before(before) {
				delete(kept.view, entity)
			}
		}
	})
	return next, err
}

// LedgerParts implements checkpoint.Views.
func (s *Store) LedgerParts(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst []ledger.Chunk) ([]ledger.Chunk, error) {
	err := s.read(ctx, key, func(kept *shard) {
		parts := slices.Sorted(maps.Keys(kept.ledger))
		i := sort.Search(len(parts), func(i int) bool { return parts[i] > from })
		for _, part := range parts[max(i-1, 0):] {
			if limit--; limit < 0 {
				return
			}
			dst = append(dst, ledger.Chunk{Key: part, Bytes: bytes.Clone(kept.ledger[part])})
		}
	})
	return dst, err
}

// GivenUp implements checkpoint.Views.
func (s *Store) GivenUp(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst []source.Range) ([]source.Range, error) {
	err := s.read(ctx, key, func(kept *shard) {
		i := sort.Search(len(kept.given), func(i int) bool { return kept.given[i].Last >= from })
		dst = append(dst, kept.given[i:min(i+limit, len(kept.given))]...)
	})
	return dst, err
}

// Rewind implements checkpoint.Store.
func (s *Store) Rewind(ctx context.Context, key checkpoint.Key, id uint64) error {
	return s.read(ctx, key, func(kept *shard) {
		clear(kept.journals)
		kept.byRow = nil
		maps.DeleteFunc(kept.view, func(_ string, k checkpoint.Known) bool { return k.Row > id })
		if id+1 > id {
			kept.given = checkpoint.Without(kept.given, []source.Range{{First: id + 1, Last: 1<<64 - 1}})
		}
	})
}
