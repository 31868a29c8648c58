package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// saveView applies the changes of a view, the last one of each entity.
func saveView(shard *bbolt.Bucket, key checkpoint.Key, changes []checkpoint.Change) error {
	if len(changes) == 0 {
		return nil
	}
	t, err := makeTrees(shard, key)
	if err != nil {
		return err
	}
	// In the order of entities, each page is touched once.
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b checkpoint.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	var rows rowOps
	for i := range changes {
		if i+1 < len(changes) && bytes.Equal(changes[i].Entity, changes[i+1].Entity) {
			continue
		}
		if err := t.put(changes[i], &rows); err != nil {
			return err
		}
	}
	return t.apply(rows)
}

// rowOps are changes of the order of rows: a value of nil deletes.
type rowOps []struct{ name, value []byte }

// apply makes changes of the order of rows, in that order: bbolt splits a page only in the end, so that anything else would
// push the many new rows behind the last one to and fro.
func (t trees) apply(ops rowOps) error {
	slices.SortFunc(ops, func(a, b struct{ name, value []byte }) int { return bytes.Compare(a.name, b.name) })
	for _, op := range ops {
		var err error
		if op.value == nil {
			err = t.rows.Delete(op.name)
		} else {
			err = t.rows.Put(op.name, op.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trees are the two orders in which the view of a shard is kept.
type trees struct {
	key        checkpoint.Key
	view, rows *bbolt.Bucket
}

func makeTrees(shard *bbolt.Bucket, key checkpoint.Key) (trees, error) {
	t := trees{key: key}
	var err error
	if t.view, err = shard.CreateBucketIfNotExists([]byte(viewBucket)); err != nil {
		return t, err
	}
	t.rows, err = shard.CreateBucketIfNotExists([]byte(rowsBucket))
	return t, err
}

// treesOf returns the trees in the bucket of a shard, which may be nil, and whether there are any.
func treesOf(shard *bbolt.Bucket, key checkpoint.Key) (trees, bool) {
	if shard == nil {
		return trees{}, false
	}
	t := trees{key: key, view: shard.Bucket([]byte(viewBucket)), rows: shard.Bucket([]byte(rowsBucket))}
	return t, t.view != nil && t.rows != nil
}

// get returns what is known about an entity.
func (t trees) get(entity []byte) (checkpoint.Known, error) {
	value := t.view.Get(entity)
	if value == nil {
		return checkpoint.Known{}, nil
	}
	return t.known(entity, value)
}

// known reads the value of an entity.
func (t trees) known(entity, value []byte) (checkpoint.Known, error) {
	payload, err := unseal(value, shardBucket, t.key.Stream, t.key.Shard, viewBucket, string(entity))
	if err != nil {
		return checkpoint.Known{}, err
	}
	known, rest, err := checkpoint.DecodeKnown(payload)
	if err == nil && len(rest) > 0 {
		err = damaged("bytes follow the entry of entity %.40q", entity)
	}
	return known, err
}

// put makes a change in the order of entities and adds to rows what it means for the order of rows.
func (t trees) put(c checkpoint.Change, rows *rowOps) error {
	former, err := t.get(c.Entity)
	if err != nil {
		return err
	}
	if hasRow(former) && (!hasRow(c.Known) || former.Row != c.Known.Row) {
		*rows = append(*rows, struct{ name, value []byte }{rowName(former.Row, c.Entity), nil})
	}
	if c.Known.Fate == checkpoint.Unknown {
		return t.view.Delete(c.Entity)
	}
	value := seal(checkpoint.AppendKnown(nil, c.Known), shardBucket, t.key.Stream, t.key.Shard, viewBucket, string(c.Entity))
	if err := t.view.Put(c.Entity, value); err != nil || !hasRow(c.Known) {
		return err
	}
	name := rowName(c.Known.Row, c.Entity)
	value = append([]byte{byte(c.Known.Fate)}, c.Known.State[:]...)
	*rows = append(*rows, struct{ name, value []byte }{name, seal(value, shardBucket, t.key.Stream, t.key.Shard, rowsBucket, string(name))})
	return nil
}

// hasRow reports whether an entity is in the order of rows.
func hasRow(k checkpoint.Known) bool {
	return k.Fate == checkpoint.Live || k.Fate == checkpoint.Tombstone
}

// rowName is the name of an entity in the order of rows.
func rowName(row uint64, entity []byte) []byte {
	name := make([]byte, 0, 8+len(entity))
	return append(binary.BigEndian.AppendUint64(name, row), entity...)
}

// entity reads a value in the order of rows; its entity shares memory with name.
func (t trees) entity(name, value []byte) (checkpoint.Entity, error) {
	payload, err := unseal(value, shardBucket, t.key.Stream, t.key.Shard, rowsBucket, string(name))
	if err != nil {
		return checkpoint.Entity{}, err
	}
	if len(name) <= 8 || len(payload) != 17 {
		return checkpoint.Entity{}, damaged("the order of rows has an entry named %.40q with %d bytes", name, len(payload))
	}
	e := checkpoint.Entity{Row: binary.BigEndian.Uint64(name), Fate: checkpoint.Fate(payload[0]), Entity: name[8:]}
	copy(e.State[:], payload[1:])
	return e, nil
}

// Lookup implements checkpoint.Views.
func (s *Store) Lookup(ctx context.Context, key checkpoint.Key, entities [][]byte, dst []checkpoint.Known) ([]checkpoint.Known, error) {
	start := len(dst)
	dst = slices.Grow(dst, len(entities))[:start+len(entities)]
	clear(dst[start:])
	err := s.read(ctx, key, func(t trees) (err error) {
		for i, entity := range entities {
			if dst[start+i], err = t.get(entity); err != nil {
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

// read runs f on the trees of a shard, if it has any.
func (s *Store) read(ctx context.Context, key checkpoint.Key, f func(trees) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.view(func(tx *bbolt.Tx) error {
		if t, ok := treesOf(bucketOf(tx, key.Stream, key.Shard), key); ok {
			return f(t)
		}
		return nil
	})
}

// ByRow implements checkpoint.Views.
func (s *Store) ByRow(ctx context.Context, key checkpoint.Key, after uint64, limit int, dst []checkpoint.Entity) ([]checkpoint.Entity, error) {
	if after+1 == 0 || limit < 1 {
		return dst, ctx.Err()
	}
	start := len(dst)
	err := s.read(ctx, key, func(t trees) error {
		c := t.rows.Cursor()
		for name, value := c.Seek(rowName(after+1, nil)); name != nil; name, value = c.Next() {
			e, err := t.entity(name, value)
			if err != nil {
				return err
			}
			if n := len(dst); n-start >= limit && dst[n-1].Row != e.Row {
				return nil
			}
			e.Entity = bytes.Clone(e.Entity)
			dst = append(dst, e)
		}
		return nil
	})
	if err != nil {
		return dst[:start], fmt.Errorf("read the view of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}

// Forget implements checkpoint.Views.
func (s *Store) Forget(ctx context.Context, key checkpoint.Key, before time.Time, from []byte, limit int) (next []byte, err error) {
	err = s.commit(ctx, func(tx *bbolt.Tx) error {
		t, ok := treesOf(bucketOf(tx, key.Stream, key.Shard), key)
		if !ok {
			return nil
		}
		var gone [][]byte
		c := t.view.Cursor()
		left := limit
		for entity, value := c.Seek(from); entity != nil; entity, value = c.Next() {
			if left--; left < 0 {
				next = bytes.Clone(entity)
				break
			}
			known, err := t.known(entity, value)
			if err != nil {
				return err
			}
			if known.Fate == checkpoint.Gone && known.Since.Before(before) {
				gone = append(gone, bytes.Clone(entity))
			}
		}
		for _, entity := range gone {
			if err := t.view.Delete(entity); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("forget entities of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return next, nil
}
