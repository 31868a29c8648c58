package bolt

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source"
)

// rewindStep is how many entries one transaction of Rewind looks at.
const rewindStep = 20_000

// Rewind implements checkpoint.Store. It goes through the whole view in several transactions.
func (s *Store) Rewind(ctx context.Context, key checkpoint.Key, id uint64) error {
	err := s.commit(ctx, func(tx *bbolt.Tx) error { return rewindRest(bucketOf(tx, key.Stream, key.Shard), key, id) })
	for next := []byte{}; err == nil && next != nil; {
		err = s.commit(ctx, func(tx *bbolt.Tx) (err error) {
			t, ok := treesOf(bucketOf(tx, key.Stream, key.Shard), key)
			if !ok {
				next = nil
				return nil
			}
			next, err = t.rewind(next, id)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("rewind %s of stream %s to %d: %w", key.Shard, key.Stream, id, err)
	}
	return nil
}

// rewindRest removes what is not in the view.
func rewindRest(shard *bbolt.Bucket, key checkpoint.Key, id uint64) error {
	if shard == nil {
		return nil
	}
	if err := shard.Delete([]byte(journalKey)); err != nil {
		return err
	}
	if b := shard.Bucket([]byte(givenBucket)); b != nil && id+1 > 0 {
		return given{key, b}.remove(source.Range{First: id + 1, Last: 1<<64 - 1})
	}
	return nil
}

// rewind removes, of the next entries from an entity on, those with a row above id, and returns where to go on; nil at the end.
func (t trees) rewind(from []byte, id uint64) (next []byte, err error) {
	var drop [][]byte
	c, left := t.view.Cursor(), rewindStep
	for entity, value := c.Seek(from); entity != nil; entity, value = c.Next() {
		if left--; left < 0 {
			next = bytes.Clone(entity)
			break
		}
		known, err := t.known(entity, value)
		if err != nil {
			return nil, err
		}
		if known.Row > id {
			drop = append(drop, bytes.Clone(entity))
		}
	}
	var rows rowOps
	for _, entity := range drop {
		if err := t.put(checkpoint.Change{Entity: entity}, &rows); err != nil {
			return nil, err
		}
	}
	return next, t.apply(rows)
}
