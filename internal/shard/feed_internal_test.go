package shard

import (
	"fmt"
	"log/slog"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/catchup"
	"bridge/internal/outage"
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
