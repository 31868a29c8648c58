package bolt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
)

// contents returns all values of a database with their paths, in order, as bbolt reads them.
func contents(t *testing.T, db *bbolt.DB) []string {
	t.Helper()
	var all []string
	var walk func(path []string, b *bbolt.Bucket) error
	walk = func(path []string, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			below := append(slices.Clip(path), string(k))
			if v == nil {
				return walk(below, b.Bucket(k))
			}
			all = append(all, fmt.Sprintf("%q=%d %x", below, len(v), crc32.ChecksumIEEE(v)))
			return nil
		})
	}
	if err := db.View(func(tx *bbolt.Tx) error { return walk(nil, tx.Cursor().Bucket()) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestVerifyAcceptsWhatBoltWrites compares verify with bbolt itself over random histories.
func TestVerifyAcceptsWhatBoltWrites(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			path := filepath.Join(t.TempDir(), "any.db")
			opts := &bbolt.Options{NoSync: true, PageSize: []int{0, 1024, 16384}[seed%3], NoFreelistSync: seed%5 == 4}
			db, err := bbolt.Open(path, 0o600, opts)
			if err != nil {
				t.Fatal(err)
			}
			for range 25 {
				if err := db.Update(func(tx *bbolt.Tx) error { return scribble(r, tx) }); err != nil {
					t.Fatal(err)
				}
				var got []string
				file := mustRead(t, path)
				err := bolt.Verify(bytes.NewReader(file), int64(len(file)), func(path []string, value []byte) error {
					got = append(got, fmt.Sprintf("%q=%d %x", path, len(value), crc32.ChecksumIEEE(value)))
					return nil
				})
				if err != nil {
					t.Fatalf("verify refuses what bbolt wrote: %v", err)
				}
				if want := contents(t, db); !slices.Equal(got, want) {
					t.Fatalf("verify sees %d values, bbolt %d", len(got), len(want))
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// scribble changes a database at random: nested buckets, values of all sizes, deletes.
func scribble(r *rand.Rand, tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(fmt.Append(nil, "top", r.IntN(3)))
	for range r.IntN(3) {
		if err == nil {
			b, err = b.CreateBucketIfNotExists(fmt.Append(nil, "bucket", r.IntN(4)))
		}
	}
	for range r.IntN(120) {
		name := fmt.Appendf(nil, "key %0*d", 1+r.IntN(60), r.IntN(200))
		if err == nil && r.IntN(3) == 0 {
			err = b.Delete(name)
		} else if err == nil {
			err = b.Put(name, bytes.Repeat([]byte{byte(r.Uint32())}, []int{0, 1, 50, 3000, 20000}[r.IntN(5)*r.IntN(2)]))
		}
	}
	if err == nil && r.IntN(10) == 0 {
		err = tx.DeleteBucket(fmt.Append(nil, "top", r.IntN(3)))
		if errors.Is(err, berrors.ErrBucketNotFound) {
			err = nil
		}
	}
	return err
}

func TestVerifyAcceptsALongListOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, PageSize: 1024, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	name := []byte("big")
	for _, size := range []int{70 << 20, 1, 2} {
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			return b.Put(name, make([]byte, size))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Stats().FreePageN; n < 65536 {
		t.Fatalf("the list has only %d pages", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file := mustRead(t, path)
	if err := bolt.Verify(bytes.NewReader(file), int64(len(file)), func([]string, []byte) error { return nil }); err != nil {
		t.Error(err)
	}
}

// smallFile returns a checkpoint in pages of 1 KiB, which keeps fuzzing fast.
func smallFile(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024})
	if err != nil {
		t.Fatal(err)
	}
	put := func(value string, path ...string) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b := tx.Cursor().Bucket()
			for _, name := range path[:len(path)-1] {
				if b, err = b.CreateBucketIfNotExists([]byte(name)); err != nil {
					return err
				}
			}
			return b.Put([]byte(path[len(path)-1]), bolt.Seal([]byte(value), path...))
		})
	}
	err = put("bridge checkpoint 2", "bridge", "format")
	for n := range 12 {
		state := checkpoint.AppendState(nil, checkpointtest.State(n))
		err = errors.Join(err, put(string(state), "shards", "orders", fmt.Sprint("db.orders_", n), "state"))
	}
	change := checkpoint.Change{Entity: []byte("a"), Known: checkpointtest.Known(checkpoint.Live, 7, 1)}
	number, entry := "\x00\x00\x00\x00\x00\x00\x00\x07", checkpoint.AppendChange(nil, change)
	for _, value := range []struct{ name, bucket, payload string }{
		{"journal", "", string(checkpoint.AppendJournal(nil, checkpointtest.Journal(1)))},
		{number, "journals", string(checkpoint.AppendJournal(nil, checkpointtest.Journal(1)))},
		{"run", "", string(checkpoint.AppendRun(nil, checkpointtest.Reconcile(1)))},
		{"a", "view", string(checkpoint.AppendKnown(nil, change.Known))},
		{number + "a", "rows", "\x01" + string(change.Known.State[:])},
		{number, "recent", string(binary.LittleEndian.AppendUint32(entry, crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli))))},
		{number, "given", number},
		{number, "absent", "a"},
	} {
		path := []string{"shards", "orders", "db.orders_0", value.bucket, value.name}
		if value.bucket == "" {
			path = []string{"shards", "orders", "db.orders_0", value.name}
		}
		err = errors.Join(err, put(value.payload, path...))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file := mustRead(t, path)
	if err := bolt.Check(bytes.NewReader(file), int64(len(file))); err != nil {
		t.Fatalf("the file to start from: %v", err)
	}
	return file
}

// FuzzCheck gives damaged files headers that look sound, so that the damage reaches the pages behind: check never panics.
func FuzzCheck(f *testing.F) {
	f.Add(smallFile(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, at := range []int{0, 1024} {
			if len(file) < at+80 {
				break
			}
			copy(file[at+16:], binary.NativeEndian.AppendUint32(nil, 0xED0CDAED))
			h := fnv.New64a()
			h.Write(file[at+16 : at+72])
			binary.NativeEndian.PutUint64(file[at+72:], h.Sum64())
		}
		err := bolt.Check(bytes.NewReader(file), int64(len(file)))
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrForeign) && !errors.Is(err, checkpoint.ErrNewer) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}
