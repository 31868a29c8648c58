package shard

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/catchup"
	"bridge/internal/outage"
	"bridge/internal/progress"
	"bridge/internal/view"
	"bridge/sink"
	"bridge/source/ledger"
)

// TestFeedAfterAnOutage has the disk take no writes while a message is applied that a shard which
// runs has not read.
func TestFeedAfterAnOutage(t *testing.T) {
	kept := memory.New()
	f := NewFeed(FeedOptions{
		Stream: "s", Store: kept, Shards: []FeedShard{{Name: "a"}},
		Committer: catchup.NewCommitter(kept, store.Image{}, outage.New(slog.New(slog.DiscardHandler))),
	})
	if _, _, err := f.lend(t.Context(), "a", ledger.Options{}, 10); err != nil {
		t.Fatal(err)
	}
	message := []catchup.Message{{Stream: "s", Shard: "a", Row: 7, Origin: sink.FromTail}}
	in := f.shards["a"]
	for attempt, fails := range []error{store.ErrOutage, store.ErrOutage, nil} {
		err := f.Apply(t.Context(), message, func(*store.Batch) error {
			if fails != nil {
				return fmt.Errorf("write to the store: %w", fails)
			}
			return nil
		})
		if (err == nil) != (fails == nil) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		want := 0
		if fails == nil {
			want = 1
		}
		if noted := f.noted("a"); noted != uint64(want) || len(in.rows) != want || !in.notes.Empty() {
			t.Errorf("attempt %d: the store was given %d parts of notes, and %d rows are kept, want %d", attempt, noted, len(in.rows), want)
		}
	}
}

// TestNotesOfAnOwnerThatIsBusy has a topic be read while the owner of a shard waits for its source:
// the store alone has what the owner is to take in (invariant 7), until it has.
func TestNotesOfAnOwnerThatIsBusy(t *testing.T) {
	for _, release := range []bool{true, false} {
		t.Run(fmt.Sprintf("a release stream %t", release), func(t *testing.T) { waitWithNotes(t, release) })
	}
}

func waitWithNotes(t *testing.T, release bool) {
	kept := memory.New()
	committer := catchup.NewCommitter(kept, store.Image{}, outage.New(slog.New(slog.DiscardHandler)))
	opts := FeedOptions{Stream: "s", Store: kept, Shards: []FeedShard{{Name: "a"}}, Committer: committer}
	if !release {
		opts.View = view.New("s", kept, committer.InForce)
	}
	f := NewFeed(opts)
	p, _, err := f.lend(t.Context(), "a", ledger.Options{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(b *store.Batch) error { return kept.Apply(t.Context(), b) }
	const chunks, rows = 20, 1000
	for chunk := range uint64(chunks) {
		var messages []catchup.Message
		for i := range uint64(rows) {
			row := chunk*rows + i + 1
			messages = append(messages, catchup.Message{
				Stream: "s", Shard: "a", Row: row, Key: fmt.Append(nil, row), Origin: sink.FromTail, At: store.At{TP: 1, Offset: row},
				State: sink.State{Epoch: 5, Seq: row, Floor: chunk},
			})
		}
		if err := f.Apply(t.Context(), messages, apply); err != nil {
			t.Fatal(err)
		}
	}
	parts, size := notesIn(t, kept)
	if most := chunks * rows * 5; parts != chunks || size > most {
		t.Errorf("the store has %d parts of notes, %d bytes in all, want %d and at most %d", parts, size, chunks, most)
	}
	if err := p.ApplyNotes(time.Now()); err != nil {
		t.Fatal(err)
	}
	if p.Floor() != chunks-1 || p.AppliedNotes() != chunks || !p.Ahead(chunks*rows) {
		t.Errorf("the floor is %d, the newest message has %d; %d parts were taken", p.Floor(), chunks-1, p.AppliedNotes())
	}
	change, err := p.Advance(progress.Batch{At: time.Now(), Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(&store.Batch{Shards: []store.ShardChange{change.ShardChange}}); err != nil {
		t.Fatal(err)
	}
	if parts, _ := notesIn(t, kept); parts != 0 {
		t.Errorf("%d parts of notes are left that were taken in", parts)
	}
}

// notesIn counts the parts of notes in a store, and their bytes.
func notesIn(t *testing.T, s store.Store) (parts, size int) {
	for one, err := range s.Parts(t.Context(), store.Key{Stream: "s", Shard: "a"}, store.Noted, 0) {
		if err != nil {
			t.Fatal(err)
		}
		parts, size = parts+1, size+len(one.Bytes)
	}
	return parts, size
}
