package shard_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// ask has a request to publish again be in the store. No process runs.
func (b *bench) ask(t testing.TB, r *stream.Republish) {
	t.Helper()
	r.Asked, r.State = time.Now(), stream.Republishing
	r.Behind(nil)
	batch := &store.Batch{Shards: []store.ShardChange{r.Change(key, time.Now())}}
	if err := b.store.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// asked waits until a request of a shard is in a state.
func asked(t testing.TB, s *shard.Shard, state stream.RepublishState) *shard.RepublishStatus {
	t.Helper()
	eventually(t, "what was asked is "+string(state), func() bool { r := s.Republish(); return r != nil && r.State == state })
	return s.Republish()
}

// TestRepublishAfterAFailover: another server answers for the first page that is published again,
// and has other rows under its ids.
func TestRepublishAfterAFailover(t *testing.T) {
	b := newBench(t)
	_, _, stop := newPublishedBench(t, b)
	stop()
	b.ask(t, &stream.Republish{From: 120, To: 137})
	failOver := sync.OnceFunc(func() { b.fails(127, "second"); write(b.table, "new", 1, 40) })
	b.hook = func(q source.Query) error {
		if q.Through == 137 {
			failOver()
		}
		return nil
	}
	s, _ := b.run(t)
	if why := stopped(t, s); !strings.Contains(why, shard.ErrIDsReused.Error()) {
		t.Errorf("it stopped for %s", why)
	}
	for _, m := range b.bus.Messages(topic) {
		if m.Origin == sink.FromRepublish || strings.Contains(string(m.Value), "new-") {
			t.Errorf("row %d is published again as %s", m.RowID, m.Value)
		}
	}
}
