package bolt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source"
)

// rewindStep is how many entries one transaction of Rewind looks at.
const rewindStep = 5000

// Rewind implements checkpoint.Store. It goes through the whole view, in several transactions; other saves wait meanwhile.
func (s *Store) Rewind(ctx context.Context, key checkpoint.Key, id uint64) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	err := s.update(func(tx *bbolt.Tx) error { return rewindRest(bucketOf(tx, key.Stream, key.Shard), key, id) })
	if err == nil {
		err = s.foldAll(key)
	}
	for next := []byte{}; err == nil && next != nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		err = s.update(func(tx *bbolt.Tx) error {
			shard := bucketOf(tx, key.Stream, key.Shard)
			if _, ok := treesOf(shard, key); !ok {
				next = nil
				return nil
			}
			t, err := makeTrees(shard, key)
			if err != nil {
				return err
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
	if err := saveJournals(shard, 0, nil); err != nil {
		return err
	}
	if b := shard.Bucket([]byte(givenBucket)); b != nil && id+1 > 0 {
		return given{key, b}.remove(source.Range{First: id + 1, Last: 1<<64 - 1})
	}
	return nil
}

// rewind removes, of the next entries from an entity on, those with a row above id, and returns where to go on; nil at the end.
func (t trees) rewind(from []byte, id uint64) (next []byte, err error) {
	var drop []checkpoint.Change
	left := rewindStep
	for one, err := range t.view.from(from) {
		if err != nil {
			return nil, err
		}
		if left--; left < 0 {
			next = bytes.Clone(one.key)
			break
		}
		known, err := settledKnown(one.key, one.value)
		if err != nil {
			return nil, err
		}
		if known.Row > id {
			drop = append(drop, checkpoint.Change{Entity: one.key, Known: known})
		}
	}
	for _, d := range drop {
		if err := t.editView.delete(d.Entity); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(drop, func(a, b checkpoint.Change) int { return cmp.Compare(a.Known.Row, b.Known.Row) })
	for _, d := range drop {
		if !hasRow(d.Known) {
			continue
		}
		if err := t.deleteRow(d.Known.Row, d.Entity); err != nil {
			return nil, err
		}
	}
	return next, t.flush()
}
