package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source/ledger"
)

// saveLedger applies the changed parts of a ledger to the bucket of its shard.
func saveLedger(shard *bbolt.Bucket, key checkpoint.Key, state *checkpoint.State) error {
	return parts{shard, key, ledgerBucket}.save(state.Ledger, state.ReplaceLedger)
}

// emptyBucket removes all values of a bucket, if it is there: not by deleting the bucket, which would leak its pages when
// it was changed in the same transaction.
func emptyBucket(shard *bbolt.Bucket, name string) error {
	b := shard.Bucket([]byte(name))
	if b == nil {
		return nil
	}
	return deleteFirst(b, func([]byte) bool { return true })
}

// deleteFirst removes values from the front of a bucket as long as their names are wanted gone.
func deleteFirst(b *bbolt.Bucket, gone func(name []byte) bool) error {
	for c := b.Cursor(); ; {
		name, _ := c.First()
		if name == nil || !gone(name) {
			return nil
		}
		if err := b.Delete(name); err != nil {
			return err
		}
	}
}

// loadLedger returns the head of the ledger in the bucket of its shard, if it has one.
func loadLedger(shard *bbolt.Bucket, key checkpoint.Key) ([]ledger.Chunk, error) {
	head, err := parts{shard, key, ledgerBucket}.from(0, 1, nil)
	if len(head) > 0 && head[0].Key > 0 {
		return nil, err
	}
	return head, err
}

// LedgerParts implements checkpoint.Views.
func (s *Store) LedgerParts(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst []ledger.Chunk) ([]ledger.Chunk, error) {
	err := ctx.Err()
	if err == nil {
		err = s.view(func(tx *bbolt.Tx) (err error) {
			shard := bucketOf(tx, key.Stream, key.Shard)
			if shard == nil {
				return nil
			}
			dst, err = parts{shard, key, ledgerBucket}.from(from, limit, dst)
			return err
		})
	}
	if err != nil {
		return dst, fmt.Errorf("read the gap ledger of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}
