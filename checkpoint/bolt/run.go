package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// LoadRun implements checkpoint.Runs.
func (s *Store) LoadRun(ctx context.Context, key checkpoint.Key) (run checkpoint.Run, err error) {
	if err = ctx.Err(); err == nil {
		err = s.view(func(tx *bbolt.Tx) error {
			shard := bucketOf(tx, key.Stream, key.Shard)
			if shard == nil || shard.Get([]byte(runKey)) == nil {
				return checkpoint.ErrNotFound
			}
			payload, err := unseal(shard.Get([]byte(runKey)), shardBucket, key.Stream, key.Shard, runKey)
			if err != nil {
				return err
			}
			run, err = checkpoint.DecodeRun(payload)
			return err
		})
	}
	if err != nil {
		return checkpoint.Run{}, fmt.Errorf("load the last reconcile of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return run, nil
}

// SaveRun implements checkpoint.Runs.
func (s *Store) SaveRun(ctx context.Context, key checkpoint.Key, run checkpoint.Run, absent [][]byte) error {
	err := validName(key)
	if err == nil {
		err = run.Check(absent)
	}
	if err == nil {
		value := seal(checkpoint.AppendRun(nil, run), shardBucket, key.Stream, key.Shard, runKey)
		err = s.commit(ctx, nil, func(tx *bbolt.Tx) error {
			shard, err := makeBucket(tx, key)
			if err != nil {
				return err
			}
			if err := shard.Put([]byte(runKey), value); err != nil {
				return err
			}
			if run.Absent == 0 && len(absent) == 0 {
				return emptyBucket(shard, absentBucket)
			}
			return addAbsent(shard, key, absent)
		})
	}
	if err != nil {
		return fmt.Errorf("save the reconcile of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return nil
}

// addAbsent adds entities behind those that wait already.
func addAbsent(shard *bbolt.Bucket, key checkpoint.Key, absent [][]byte) error {
	if len(absent) == 0 {
		return nil
	}
	b, err := shard.CreateBucketIfNotExists([]byte(absentBucket))
	if err != nil {
		return err
	}
	next := uint64(0)
	if last, _ := b.Cursor().Last(); len(last) == 8 {
		next = binary.BigEndian.Uint64(last) + 1
	}
	for _, entity := range absent {
		name := binary.BigEndian.AppendUint64(nil, next)
		value := seal(bytes.Clone(entity), shardBucket, key.Stream, key.Shard, absentBucket, string(name))
		if err := b.Put(name, value); err != nil {
			return err
		}
		next++
	}
	return nil
}

// Absent implements checkpoint.Runs.
func (s *Store) Absent(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst [][]byte) ([][]byte, error) {
	start := len(dst)
	err := ctx.Err()
	if err == nil {
		err = s.view(func(tx *bbolt.Tx) error {
			shard := bucketOf(tx, key.Stream, key.Shard)
			if shard == nil || shard.Bucket([]byte(absentBucket)) == nil {
				return nil
			}
			c := shard.Bucket([]byte(absentBucket)).Cursor()
			name, value := c.Seek(binary.BigEndian.AppendUint64(nil, from))
			for ; name != nil && len(dst)-start < limit; name, value = c.Next() {
				payload, err := unseal(value, shardBucket, key.Stream, key.Shard, absentBucket, string(name))
				if err != nil {
					return err
				}
				dst = append(dst, bytes.Clone(payload))
			}
			return nil
		})
	}
	if err != nil {
		return dst[:start], fmt.Errorf("read the absent entities of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}
