package shard

import (
	"fmt"
	"log/slog"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/catchup"
	"bridge/internal/outage"
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
		if len(in.noted) != want || len(in.rows) != want {
			t.Errorf("attempt %d: the shard has %d notes and %d rows to take in, want %d", attempt, len(in.noted), len(in.rows), want)
		}
	}
}

// TestNotesOfAnOwnerThatIsBusy has a topic be read again from its beginning while the owner waits
// for its source: what it has to take in stays bounded (invariant 7), and its last state is known.
func TestNotesOfAnOwnerThatIsBusy(t *testing.T) {
	kept := memory.New()
	committer := catchup.NewCommitter(kept, store.Image{}, outage.New(slog.New(slog.DiscardHandler)))
	f := NewFeed(FeedOptions{
		Stream: "s", Store: kept, Shards: []FeedShard{{Name: "a"}}, Committer: committer, View: view.New("s", kept, committer.InForce),
	})
	p, _, err := f.lend(t.Context(), "a", ledger.Options{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	const chunks, rows = 100, 2000
	for chunk := range uint64(chunks) {
		var messages []catchup.Message
		for i := range uint64(rows) {
			row := chunk*rows + i + 1
			messages = append(messages, catchup.Message{
				Stream: "s", Shard: "a", Row: row, Key: fmt.Append(nil, row), Origin: sink.FromTail, At: store.At{TP: 1, Offset: row},
				State: sink.State{Epoch: 5, Seq: row, Floor: chunk},
			})
		}
		if err := f.Apply(t.Context(), messages, func(*store.Batch) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.shards["a"].noted); n > mostNotes {
		t.Errorf("%d notes wait for the owner", n)
	}
	f.applyNoted("a", p, 0)
	if p.Floor() != chunks-1 {
		t.Errorf("the floor is %d, the newest message has %d", p.Floor(), chunks-1)
	}
}
