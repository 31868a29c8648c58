package bolt

import (
	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// journalValue returns the sealed form of a journal; nil for none.
func journalValue(key checkpoint.Key, j *checkpoint.Journal) []byte {
	if j == nil {
		return nil
	}
	return seal(checkpoint.AppendJournal(nil, j), shardBucket, key.Stream, key.Shard, journalKey)
}

// putOrDelete puts a value, or deletes what is there when it is nil.
func putOrDelete(b *bbolt.Bucket, name string, value []byte) error {
	if value == nil {
		return b.Delete([]byte(name))
	}
	return b.Put([]byte(name), value)
}

// loadJournal returns the journal in the bucket of a shard; nil when there is none.
func loadJournal(b *bbolt.Bucket, key checkpoint.Key) (*checkpoint.Journal, error) {
	value := b.Get([]byte(journalKey))
	if value == nil {
		return nil, nil
	}
	payload, err := unseal(value, shardBucket, key.Stream, key.Shard, journalKey)
	if err != nil {
		return nil, err
	}
	return checkpoint.DecodeJournal(payload)
}
