package bolt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// look is what one reader sees of the view of a shard: the trees, and what is recent over them.
type look struct {
	trees   trees
	planted bool // there are trees
	recents *recents
	layer   *layer
}

func (s *Store) lookAt(tx *bbolt.Tx, key checkpoint.Key) look {
	shard := bucketOf(tx, key.Stream, key.Shard)
	v := look{recents: recentsOf(shard, key), layer: s.overlay.shards[key]}
	v.trees, v.planted = treesOf(shard, key)
	return v
}

// get returns what is known about an entity.
func (v *look) get(entity []byte) (checkpoint.Known, error) {
	if c, _, ok, err := v.layer.find(v.recents, entity); ok || err != nil {
		return c.Known, err
	}
	if !v.planted {
		return checkpoint.Known{}, nil
	}
	return v.trees.get(entity)
}

// read runs f on the view of a shard as it is.
func (s *Store) read(ctx context.Context, key checkpoint.Key, f func(*look) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.overlay.mu.RLock()
	defer s.overlay.mu.RUnlock()
	return s.view(func(tx *bbolt.Tx) error {
		v := s.lookAt(tx, key)
		return f(&v)
	})
}

// Lookup implements checkpoint.Views.
func (s *Store) Lookup(ctx context.Context, key checkpoint.Key, entities [][]byte, dst []checkpoint.Known) ([]checkpoint.Known, error) {
	start := len(dst)
	dst = slices.Grow(dst, len(entities))[:start+len(entities)]
	err := s.read(ctx, key, func(v *look) (err error) {
		for i, entity := range entities {
			if dst[start+i], err = v.get(entity); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return dst[:start], fmt.Errorf("look up entities of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}

// ByRow implements checkpoint.Views.
func (s *Store) ByRow(ctx context.Context, key checkpoint.Key, after uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, error) {
	start := len(dst)
	err := s.read(ctx, key, func(v *look) (err error) {
		if after+1 == 0 || limit < 1 {
			return nil
		}
		for last := after; len(dst)-start < limit && last+1 != 0; after = last {
			last = 1<<64 - 1
			from := len(dst)
			if v.planted {
				if dst, last, err = v.settledRows(after, limit, dst); err != nil {
					return err
				}
			}
			if dst, err = v.recentRows(after, last, limit, dst); err != nil {
				return err
			}
			slices.SortFunc(dst[from:], func(a, b checkpoint.Entity) int {
				return cmp.Or(cmp.Compare(a.Row, b.Row), bytes.Compare(a.Entity, b.Entity))
			})
		}
		dst = dst[:start+page(dst[start:], limit)]
		return nil
	})
	if err != nil {
		return dst[:start], fmt.Errorf("read the view of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}

// page returns how many of rows are a page of at least limit, if there are, that ends between two rows.
func page(rows []checkpoint.Entity, limit int) int {
	n := min(limit, len(rows))
	for n > 0 && n < len(rows) && rows[n].Row == rows[n-1].Row {
		n++
	}
	return n
}

// settledRows appends to dst what is not hidden of a page of what the trees say, and returns the row through which that is all.
func (v *look) settledRows(after uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, uint64, error) {
	last, looked := after, 0
	for one, err := range v.trees.rows.from(appendRowName(nil, after+1, nil)) {
		if err != nil {
			return dst, 0, err
		}
		e, err := settledEntity(one.key, one.value)
		if err != nil {
			return dst, 0, err
		}
		if looked >= limit && last != e.Row {
			return dst, last, nil
		}
		last = e.Row
		looked++
		_, _, hidden, err := v.layer.find(v.recents, e.Entity)
		if err != nil {
			return dst, 0, err
		}
		if !hidden {
			e.Entity = bytes.Clone(e.Entity)
			dst = append(dst, e)
		}
	}
	return dst, 1<<64 - 1, nil
}

// recentRows appends to dst a page of what is recent, of the rows above after and up to last.
func (v *look) recentRows(after, last uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, error) {
	start := len(dst)
	for row, at := range v.layer.rowsAbove(after, last) {
		if n := len(dst); n-start >= limit && dst[n-1].Row != row {
			break
		}
		c, err := v.recents.at(at)
		if err != nil {
			return dst, err
		}
		if _, newest, _, err := v.layer.find(v.recents, c.Entity); err != nil {
			return dst, err
		} else if newest == at {
			dst = append(dst, checkpoint.Entity{Row: row, State: c.Known.State, Fate: c.Known.Fate, Entity: bytes.Clone(c.Entity)})
		}
	}
	return dst, nil
}

// Forget implements checkpoint.Views.
func (s *Store) Forget(ctx context.Context, key checkpoint.Key, before time.Time, from []byte, limit int) (next []byte, err error) {
	err = s.alone(ctx, func() error {
		var forms [][]byte
		if err := s.view(func(tx *bbolt.Tx) error {
			v := s.lookAt(tx, key)
			changes, end, err := v.forgettable(before, from, limit)
			next, forms = end, recentForms(changes)
			return err
		}); err != nil || len(forms) == 0 {
			return err
		}
		recent := addition{key: key, forms: forms}
		if err := s.update(func(tx *bbolt.Tx) error { return recent.put(bucketOf(tx, key.Stream, key.Shard)) }); err != nil {
			return err
		}
		_, err := s.addRecent(recent)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forget entities of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return next, nil
}

// forgettable returns changes that remove entities found gone before the given time, of up to limit settled ones from an entity on,
// of the recent ones with the last of those, and where to go on. The changes are good as long as the transaction.
func (v *look) forgettable(before time.Time, from []byte, limit int) (changes []checkpoint.Change, next []byte, err error) {
	if v.planted {
		for one, err := range v.trees.view.from(from) {
			if err != nil {
				return nil, nil, err
			}
			if limit--; limit < 0 {
				next = bytes.Clone(one.key)
				break
			}
			known, err := settledKnown(one.key, one.value)
			if err != nil {
				return nil, nil, err
			}
			if _, _, hidden, err := v.layer.find(v.recents, one.key); err != nil {
				return nil, nil, err
			} else if !hidden && goneBefore(known, before) {
				changes = append(changes, checkpoint.Change{Entity: one.key})
			}
		}
	}
	if next != nil {
		// What is recent is looked at once, with the last of what is settled.
		return changes, next, nil
	}
	for p := range v.layer.newest() {
		c, err := v.recents.at(p)
		if err != nil {
			return nil, nil, err
		}
		if goneBefore(c.Known, before) {
			changes = append(changes, checkpoint.Change{Entity: c.Entity})
		}
	}
	return changes, next, nil
}

func goneBefore(k checkpoint.Known, t time.Time) bool {
	return k.Fate == checkpoint.Gone && k.Since.Before(t)
}
