package shard_test

import (
	"context"
	"strings"
	"testing"

	"bridge/checkpoint/store"
	"bridge/internal/published"
	"bridge/internal/shard"
	"bridge/source/ledger"
)

// watchedStore fails a test when a change lists rows that its position has not reached: they may
// not have been acknowledged.
type watchedStore struct {
	store.Store
	t *testing.T
}

func (w watchedStore) Apply(ctx context.Context, b *store.Batch) error {
	for i := range b.Shards {
		var chunks []ledger.Chunk
		for _, part := range b.Shards[i].Parts {
			if part.Kind == store.Published && part.Bytes != nil {
				chunks = append(chunks, ledger.Chunk{Key: part.Number, Bytes: part.Bytes})
			}
		}
		if len(chunks) == 0 {
			continue
		}
		// Why a shard has stopped is saved without a position.
		position := uint64(0)
		if p := b.Shards[i].Progress; p != nil {
			position = p.Position
		}
		log, err := published.Restore(1000, chunks)
		if err != nil || log.Highest() > position {
			w.t.Errorf("position %d is saved with rows up to %d, %v", position, log.Highest(), err)
		}
	}
	return w.Store.Apply(ctx, b)
}

// TestPublishedRowsAreSavedWithTheirPosition: a restored copy of the store reads back what it
// lacks, and the ids of these rows are watched, too.
func TestPublishedRowsAreSavedWithTheirPosition(t *testing.T) {
	b := newBench(t)
	b.store = watchedStore{b.store, t}
	w := &writer{table: b.table, name: "old"}
	w.insert(100)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 100 })
	before := copyStore(t, b.store)
	w.insert(37)
	eventually(t, "saved", func() bool { return b.position(t) == 137 })
	stop()

	b.store = watchedStore{before, t}
	b.table.Lose(127)
	b.table.Move("second", false)
	(&writer{table: b.table, name: "new"}).insert(40)
	s, _ := b.run(t)
	eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
	if got := s.Status().LastError; !strings.Contains(got, "10 are others now, from id 128 on") || !strings.Contains(got, "bridge checkpoint set items items 127;") {
		t.Error(got)
	}
	expectRun(t, b.ids(topic), 1, 137)
}

// TestAShardThatWasPutAtAnIDHasNoList, and has one from then on.
func TestAShardThatWasPutAtAnIDHasNoList(t *testing.T) {
	b := newBench(t)
	w := &writer{table: b.table, name: "old"}
	w.insert(137)
	b.set(t, 100)
	s, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 137 })
	stop()
	if log := b.published(t); log.Len() != 37 || log.Highest() != 137 || log.Origin().Server != "memory/db" {
		t.Errorf("%d rows up to %d of %+v, %s", log.Len(), log.Highest(), log.Origin(), s.Status().LastError)
	}
}

// published returns the rows published last, as the store has them.
func (b *bench) published(t testing.TB) *published.Log {
	t.Helper()
	var chunks []ledger.Chunk
	for part, err := range b.store.Parts(t.Context(), key, store.Published, 0) {
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, ledger.Chunk{Key: part.Number, Bytes: part.Bytes})
	}
	log, err := published.Restore(1000, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
