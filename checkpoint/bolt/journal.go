package bolt

import (
	"encoding/binary"
	"sync"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// formed is a journal in the form of its value, which is in memory that is used again.
type formed struct {
	name, value []byte
	memory      *[]byte
}

// journalMemory holds memory for values of journals: a backlog needs some MB for each save, as much as the journal has before it is
// compressed.
var journalMemory = sync.Pool{New: func() any { return new([]byte) }}

// keepJournal is the largest memory that is used again, in bytes.
const keepJournal = 8 << 20

// journalForms returns the values of journals; free them once their transaction is over.
func journalForms(key checkpoint.Key, journals []*checkpoint.Journal) []formed {
	forms := make([]formed, 0, len(journals))
	for _, j := range journals {
		name := binary.BigEndian.AppendUint64(nil, j.Number)
		memory := journalMemory.Get().(*[]byte)
		value := seal(checkpoint.AppendJournal((*memory)[:0], j), shardBucket, key.Stream, key.Shard, journalsBucket, string(name))
		*memory = value
		forms = append(forms, formed{name, value, memory})
	}
	return forms
}

// free gives the memory of values back.
func free(forms []formed) {
	for _, f := range forms {
		if cap(*f.memory) <= keepJournal {
			journalMemory.Put(f.memory)
		}
	}
}

// saveJournals removes the journals in the bucket of a shard that are numbered below keep, all where that is 0, and adds forms.
func saveJournals(shard *bbolt.Bucket, keep uint64, forms []formed) error {
	if shard.Get([]byte(journalKey)) != nil {
		if err := shard.Delete([]byte(journalKey)); err != nil {
			return err
		}
	}
	b := shard.Bucket([]byte(journalsBucket))
	if b == nil {
		if len(forms) == 0 {
			return nil
		}
		var err error
		if b, err = shard.CreateBucket([]byte(journalsBucket)); err != nil {
			return err
		}
	}
	err := deleteFirst(b, func(name []byte) bool { return keep == 0 || binary.BigEndian.Uint64(name) < keep })
	if err != nil {
		return err
	}
	for _, form := range forms {
		if err := b.Put(form.name, form.value); err != nil {
			return err
		}
	}
	return nil
}

// loadJournals returns the journals in the bucket of a shard.
func loadJournals(shard *bbolt.Bucket, key checkpoint.Key) (journals []*checkpoint.Journal, err error) {
	if value := shard.Get([]byte(journalKey)); value != nil {
		// The one of a file of version 1.
		payload, err := unseal(value, shardBucket, key.Stream, key.Shard, journalKey)
		if err != nil {
			return nil, err
		}
		j, err := checkpoint.DecodeJournal(payload)
		return []*checkpoint.Journal{j}, err
	}
	b := shard.Bucket([]byte(journalsBucket))
	if b == nil {
		return nil, nil
	}
	err = b.ForEach(func(name, value []byte) error {
		if len(name) != 8 {
			return damaged("a journal has the name %.40q", name)
		}
		payload, err := unseal(value, shardBucket, key.Stream, key.Shard, journalsBucket, string(name))
		if err != nil {
			return err
		}
		j, err := checkpoint.DecodeJournal(payload)
		if err != nil {
			return err
		}
		j.Number = binary.BigEndian.Uint64(name)
		journals = append(journals, j)
		return nil
	})
	return journals, err
}
