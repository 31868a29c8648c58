package bolt_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
	"bridge/checkpoint/memory"
)

// plainJournal is checkpointtest.Journal(1) as it was kept before journals were compressed.
func plainJournal(t *testing.T) []byte {
	t.Helper()
	form, err := os.ReadFile("../testdata/journal-1")
	if err != nil {
		t.Fatal(err)
	}
	return form
}

// TestAFileOfVersion1IsTakenOver: it has its journal elsewhere, and is none of version 1 any more once it was opened.
func TestAFileOfVersion1IsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := mustOpen(t, path)
	if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
		shard := []string{"shards", key.Stream, key.Shard}
		journal := bolt.Seal(plainJournal(t), append(shard, "journal")...)
		return errors.Join(
			tx.Bucket([]byte("bridge")).Put([]byte("format"), bolt.Seal([]byte("bridge checkpoint 1"), "bridge", "format")),
			tx.Bucket([]byte(shard[0])).Bucket([]byte(shard[1])).Bucket([]byte(shard[2])).Put([]byte("journal"), journal))
	})

	want := checkpointtest.State(1)
	want.Journals = []*checkpoint.Journal{checkpointtest.Journal(1)}
	want.Journals[0].Number = 0
	for range 2 {
		s = mustOpen(t, path)
		if got, err := s.Load(t.Context(), key); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("the state is\n%+v, %v, want\n%+v", got, err, want)
		}
		mustClose(t, s)
		editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
			if got := string(tx.Bucket([]byte("bridge")).Get([]byte("format"))); got != string(bolt.Seal([]byte("bridge checkpoint 3"), "bridge", "format")) {
				t.Errorf("the file says %q of itself", got)
			}
			return nil
		})
	}

	// As a shard does that has sent it.
	s = mustOpen(t, path)
	after := checkpointtest.State(2)
	after.Keep = 1
	if err := s.Save(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(t.Context(), key); err != nil || !reflect.DeepEqual(got, checkpointtest.State(2)) {
		t.Errorf("the state is\n%+v, %v", got, err)
	}
	mustClose(t, s)
}

// TestTreesOfVersion2AreTakenOver: a view is what it was, whatever part of its trees has got the form of the present version.
func TestTreesOfVersion2AreTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s, err := bolt.OpenFolding(path, 100, 40)
	if err != nil {
		t.Fatal(err)
	}
	w := &twin{Store: s, model: memory.New()}
	w.save(t, 40)
	w.foldToTheEnd(t)
	mustClose(t, s)
	editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
		return errors.Join(bolt.MakeOld(tx),
			tx.Bucket([]byte("bridge")).Put([]byte("format"), bolt.Seal([]byte("bridge checkpoint 2"), "bridge", "format")))
	})
	for range 4 {
		if w.Store, err = bolt.OpenFolding(path, 100, 40); err != nil {
			t.Fatal(err)
		}
		w.mustEqual(t)
		w.save(t, 5)
		w.forgetAll(t)
		w.mustEqual(t)
		mustClose(t, w.Store)
	}
	w.Store = mustOpen(t, path)
	for _, store := range []checkpoint.Store{w.Store, w.model} {
		if err := store.Rewind(t.Context(), key, 700); err != nil {
			t.Fatal(err)
		}
	}
	w.mustEqual(t)
	w.foldToTheEnd(t)
	mustClose(t, w.Store)
}

// TestAJournalThatIsNotCompressedIsTakenOver: a file of version 2 may have one.
func TestAJournalThatIsNotCompressedIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := mustOpen(t, path)
	want := checkpointtest.State(1)
	want.Journals = []*checkpoint.Journal{checkpointtest.Journal(1), checkpointtest.Journal(2)}
	if err := s.Save(t.Context(), key, want); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
		name := binary.BigEndian.AppendUint64(nil, want.Journals[0].Number)
		b := tx.Bucket([]byte("shards")).Bucket([]byte(key.Stream)).Bucket([]byte(key.Shard)).Bucket([]byte("journals"))
		return b.Put(name, bolt.Seal(plainJournal(t), "shards", key.Stream, key.Shard, "journals", string(name)))
	})
	s = mustOpen(t, path)
	if got, err := s.Load(t.Context(), key); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the state is\n%+v, %v, want\n%+v", got, err, want)
	}
	mustClose(t, s)
}
