package bolt

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source/ledger"
)

// parts is a bucket of numbered parts in the bucket of a shard.
type parts struct {
	shard *bbolt.Bucket
	key   checkpoint.Key
	name  string
}

// save applies the changed parts, to none when all are made anew.
func (p parts) save(changed []ledger.Chunk, anew bool) error {
	if len(changed) == 0 && !anew {
		return nil
	}
	b, err := p.shard.CreateBucketIfNotExists([]byte(p.name))
	if err != nil {
		return err
	}
	if anew {
		if err := emptyBucket(p.shard, p.name); err != nil {
			return err
		}
	}
	// Parts come in the order of their keys: pages that are full stay so.
	b.FillPercent = 0.9
	for _, part := range changed {
		name := binary.BigEndian.AppendUint64(nil, part.Key)
		if part.Bytes == nil {
			err = b.Delete(name)
		} else {
			value := append(make([]byte, 0, len(part.Bytes)+sealSize), part.Bytes...)
			err = b.Put(name, seal(value, shardBucket, p.key.Stream, p.key.Shard, p.name, string(name)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load returns all parts in the order of their keys.
func (p parts) load() (list []ledger.Chunk, err error) {
	b := p.shard.Bucket([]byte(p.name))
	if b == nil {
		return nil, nil
	}
	err = b.ForEach(func(name, value []byte) error {
		part, err := p.open(name, value)
		list = append(list, part)
		return err
	})
	return list, err
}

// from appends to dst up to limit parts, from the last one with a key at or below key.
func (p parts) from(key uint64, limit int, dst []ledger.Chunk) ([]ledger.Chunk, error) {
	b := p.shard.Bucket([]byte(p.name))
	if b == nil {
		return dst, nil
	}
	c := b.Cursor()
	sought := binary.BigEndian.AppendUint64(nil, key)
	name, value := c.Seek(sought)
	if name == nil {
		name, value = c.Last()
	} else if !bytes.Equal(name, sought) {
		if name, value = c.Prev(); name == nil {
			name, value = c.First()
		}
	}
	for ; name != nil && limit > 0; name, value = c.Next() {
		part, err := p.open(name, value)
		if err != nil {
			return dst, err
		}
		dst = append(dst, part)
		limit--
	}
	return dst, nil
}

// open returns the part in a value.
func (p parts) open(name, value []byte) (ledger.Chunk, error) {
	if len(name) != 8 {
		return ledger.Chunk{}, damaged("%s has a part named %q", p.name, name)
	}
	payload, err := unseal(value, shardBucket, p.key.Stream, p.key.Shard, p.name, string(name))
	if err != nil {
		return ledger.Chunk{}, err
	}
	return ledger.Chunk{Key: binary.BigEndian.Uint64(name), Bytes: append([]byte(nil), payload...)}, nil
}
