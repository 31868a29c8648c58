package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// saveMeaning keeps the configuration that a state was made with, unless it is the one that is kept.
func saveMeaning(shard *bbolt.Bucket, key checkpoint.Key, m *checkpoint.Meaning) error {
	switch {
	case m == nil:
		return nil
	case m.Kind == "":
		return shard.Delete([]byte(meaningKey))
	}
	value := seal(checkpoint.AppendMeaning(nil, m), shardBucket, key.Stream, key.Shard, meaningKey)
	if bytes.Equal(shard.Get([]byte(meaningKey)), value) {
		return nil
	}
	return shard.Put([]byte(meaningKey), value)
}

// loadMeaning returns the configuration that the state of a shard was made with, nil where none is kept.
func loadMeaning(shard *bbolt.Bucket, key checkpoint.Key) (*checkpoint.Meaning, error) {
	value := shard.Get([]byte(meaningKey))
	if value == nil {
		return nil, nil
	}
	payload, err := unseal(value, shardBucket, key.Stream, key.Shard, meaningKey)
	if err != nil {
		return nil, err
	}
	return checkpoint.DecodeMeaning(payload)
}
