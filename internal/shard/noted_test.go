package shard_test

import (
	"encoding/hex"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
)

// TestNotesOfAFormerVersion: a version that put what was read of a running shard beside its
// progress was killed before its owner took that in. The offset has passed the rows: no other
// message tells of them. They are not published again, and the notes go.
func TestNotesOfAFormerVersion(t *testing.T) {
	// Rows 101 to 103 of the tail, and 50, as that version has written them.
	notes, err := hex.DecodeString("0103ca01d801e80703005a0102020102020269d101e90703005b")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []bool{false, true} {
		name := "at a start"
		if set {
			name = "at a command"
		}
		instantly(t, name, func(t *testing.T) {
			b := newBench(t)
			b.insert(49)
			open := b.table.Open("open", old)
			b.insert(50)
			b.runTo(t, 100)
			b.table.Commit(open)
			b.insert(3)
			if err := b.store.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{
				{Kind: store.Noted, Number: 1, Bytes: form.Seal(notes)},
			}}}}); err != nil {
				t.Fatal(err)
			}
			if set {
				b.set(t, 103)
			}
			b.insert(1)
			_, stop := b.run(t)
			b.saved(t, 104)
			b.polls(t, 20)
			stop()
			if n := b.count(topic); n != 100 {
				t.Errorf("%d messages, want those of 99 rows and of the last one", n)
			}
			for range b.store.Parts(t.Context(), key, store.Noted, 0) {
				t.Error("notes are left")
			}
		})
	}
}
