package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// Seal is seal, for tests that write files of their own.
func Seal(payload []byte, path ...string) []byte { return seal(payload, path...) }

// Checksummed ends body with the checksum of a state.
func Checksummed(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}

// OpenFolding opens a store that folds what is recent after this many entities, in steps of this many operations.
func OpenFolding(path string, entries, step int) (*Store, error) {
	return open(path, Options{}, bounds{entries: entries, bytes: 1 << 20, step: step, pages: 5, entityBytes: 1 << 10, age: time.Hour, pace: time.Hour, piece: 16})
}

// OpenAgeing opens a store that folds what has been recent for an age, if it has so many bytes, in small steps at a pace.
func OpenAgeing(path string, bytes int, age, pace time.Duration) (*Store, error) {
	b := defaultBounds
	b.agedBytes, b.age, b.pace, b.step = bytes, age, pace, 100
	return open(path, Options{}, b)
}

// OnPreparation calls f before each transaction of the preparations that begin from now on.
func (s *Store) OnPreparation(f func() error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.onPreparation = f
}

// Busy reports whether somebody has the turn.
func (s *Store) Busy() bool { return len(s.turn) > 0 }

// HashLike makes hashes of entities collide: only the last bit of the length is left.
func (s *Store) HashLike() {
	s.overlay.hash = func(entity []byte) uint32 { return uint32(len(entity) & 1) }
}

// Recent returns how many entities the overlay has, and whether a fold is under way.
func (s *Store) Recent() (entities int, folding bool) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.overlay.entries, s.fold != nil
}

// FoldSteps makes a number of steps of the fold of a shard and reports whether there was nothing more to do.
func (s *Store) FoldSteps(key checkpoint.Key, steps int) (ended bool, err error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for range steps {
		if s.fold == nil && s.overlay.shards[key] == nil {
			return true, nil
		}
		if s.fold == nil {
			s.beginFold(key)
			_, err = s.prepared()
		} else {
			_, err = s.foldStep()
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Trees returns the entities with a row of all shards as the two trees have them, sorted.
func (s *Store) Trees() (inView, inRows []string, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		return eachShard(tx, func(key checkpoint.Key, shard *bbolt.Bucket) error {
			t, there := treesOf(shard, key)
			if !there {
				return nil
			}
			for e, err := range t.view.from(nil) {
				if err != nil {
					return err
				}
				k, err := settledKnown(e.key, e.value)
				if err != nil {
					return err
				}
				if hasRow(k) {
					inView = append(inView, fmt.Sprint(key, string(e.key), k.Row, k.Fate, k.State))
				}
			}
			for one, err := range t.rows.from(nil) {
				if err != nil {
					return err
				}
				e, err := settledEntity(one.key, one.value)
				if err != nil {
					return err
				}
				inRows = append(inRows, fmt.Sprint(key, string(e.Entity), e.Row, e.Fate, e.State))
			}
			return nil
		})
	})
	slices.Sort(inView)
	slices.Sort(inRows)
	return inView, inRows, err
}

// MakeOld gives all trees the form that files up to version 2 have: a value an entry.
func MakeOld(tx *bbolt.Tx) error {
	return eachShard(tx, func(key checkpoint.Key, shard *bbolt.Bucket) error {
		t, there := treesOf(shard, key)
		if !there {
			return nil
		}
		for name, tree := range map[string]blocks{viewBucket: t.view, rowsBucket: t.rows} {
			var entries []entry
			for e, err := range tree.from(nil) {
				if err != nil {
					return err
				}
				entries = append(entries, entry{bytes.Clone(e.key), bytes.Clone(e.value)})
			}
			if err := emptyBucket(shard, name); err != nil {
				return err
			}
			b, err := shard.CreateBucketIfNotExists([]byte(name))
			if err != nil {
				return err
			}
			for _, e := range entries {
				if err := b.Put(e.key, sealNamed(e.value, e.key, tree.path...)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Verify is verify.
func Verify(file io.ReaderAt, size int64, visit func(path []string, value []byte) error) error {
	return verify(file, size, visit)
}

// Check is check.
func Check(file io.ReaderAt, size int64) error { return check(file, size) }

// AfterFailure is what Save does when a transaction failed at its end.
func (s *Store) AfterFailure(txid int, err error) error { return s.afterFailure(txid, err) }
