package bolt

import (
	"encoding/binary"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source"
)

// saveLedger applies the changed parts of a ledger to the bucket of its shard.
func saveLedger(shard *bbolt.Bucket, key checkpoint.Key, state *checkpoint.State) error {
	if len(state.Ledger) == 0 && !state.LedgerAnew {
		return nil
	}
	b, err := shard.CreateBucketIfNotExists([]byte(ledgerBucket))
	if err != nil {
		return err
	}
	if state.LedgerAnew {
		if err := emptyBucket(shard, ledgerBucket); err != nil {
			return err
		}
	}
	for _, part := range state.Ledger {
		name := binary.BigEndian.AppendUint64(nil, part.Key)
		if part.Bytes == nil {
			err = b.Delete(name)
		} else {
			value := append(make([]byte, 0, len(part.Bytes)+sealSize), part.Bytes...)
			err = b.Put(name, seal(value, shardBucket, key.Stream, key.Shard, ledgerBucket, string(name)))
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// loadLedger returns all parts of the ledger in the bucket of its shard.
func loadLedger(shard *bbolt.Bucket, key checkpoint.Key) (parts []source.Chunk, err error) {
	b := shard.Bucket([]byte(ledgerBucket))
	if b == nil {
		return nil, nil
	}
	err = b.ForEach(func(name, value []byte) error {
		if len(name) != 8 {
			return damaged("the ledger has a part named %q", name)
		}
		payload, err := unseal(value, shardBucket, key.Stream, key.Shard, ledgerBucket, string(name))
		if err != nil {
			return err
		}
		parts = append(parts, source.Chunk{Key: binary.BigEndian.Uint64(name), Bytes: append([]byte(nil), payload...)})
		return nil
	})
	return parts, err
}
