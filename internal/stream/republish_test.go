package stream_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// TestRepublish holds what a request says against what is read, done and saved: messages of former
// requests do not count, nor does what another one has done, and a kill publishes nothing twice
// that the bus has.
func TestRepublish(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &pauses{t, memory.New(), now}
	table := store.Key{Stream: "s", Shard: "a"}
	load := func() *stream.Republish {
		t.Helper()
		r, err := stream.LoadRepublish(t.Context(), p.store, table)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	save := func(r *stream.Republish) {
		t.Helper()
		p.apply(&store.Batch{Shards: []store.ShardChange{r.Change(table, now)}})
	}
	if r := load(); r != nil || r.Running() || r.Advance(&stream.Republished{}, now) || r.Note(1, nil, &sink.State{Epoch: 9}) {
		t.Fatalf("without a request there is %+v", r)
	}
	r := &stream.Republish{From: 10, To: 30, Epoch: 5, Seq: 7, Asked: now, State: stream.Republishing}
	r.Behind(nil)
	for _, m := range []struct {
		row, epoch, seq uint64
		want            bool
	}{{11, 5, 7, false}, {11, 4, 99, false}, {12, 5, 8, true}, {14, 6, 1, true}, {13, 6, 2, true}, {9, 6, 3, false}, {31, 6, 4, false}} {
		if got := r.Note(m.row, nil, &sink.State{Epoch: m.epoch, Seq: m.seq}); got != m.want {
			t.Errorf("a message %+v counts: %v", m, got)
		}
	}
	save(r)
	if r = load(); !reflect.DeepEqual(r.Done, []source.Range{{First: 12, Last: 14}}) || r.Rows != 3 || r.Cursor != 0 || !r.IsDone(13) || r.IsDone(11) || r.IsDone(15) {
		t.Errorf("behind a kill: %+v", r)
	}
	if r.Advance(&stream.Republished{Number: r.Number + 1, Cursor: 30}, now) || !r.Advance(&stream.Republished{Number: r.Number, Cursor: 20, Rows: 5, Changed: 1}, now) {
		t.Error("what another request has done counts, or that of this one does not")
	}
	save(r)
	if r = load(); len(r.Done) > 0 || r.Rows != 8 || r.Changed != 1 || !r.IsDone(20) || r.IsDone(21) || !r.Running() {
		t.Errorf("behind a batch: %+v", r)
	}
	first := p.image().Shards
	if !r.Cancel(now) || r.Cancel(now) || r.Note(25, nil, &sink.State{Epoch: 9}) {
		t.Error("it is cancelled twice, or goes on")
	}
	r.Advance(&stream.Republished{Number: r.Number, Cursor: 25, State: stream.RepublishDone}, now)
	save(r)
	if r = load(); r.State != stream.RepublishCancelled || !r.Ended.Equal(now) || r.Cursor != 25 {
		t.Errorf("cancelled: %+v", r)
	}

	// The next one of the table, by keys.
	next := &stream.Republish{Keys: []string{"x", "y", "z"}, Asked: now, State: stream.Republishing}
	if next.Behind(r); next.Number <= r.Number {
		t.Errorf("number %d follows %d", next.Number, r.Number)
	}
	if next.Note(1, []byte("w"), &sink.State{Epoch: 1}) || !next.Note(1, []byte("y"), &sink.State{Epoch: 1}) || !next.IsDone(2) || next.IsDone(3) {
		t.Errorf("by keys: %+v", next)
	}
	save(next)
	if r = load(); !r.Running() || !r.IsDone(2) {
		t.Errorf("the next request: %+v", r)
	}

	// Of two stores the later change holds; a pause is something else, and reset forgets it.
	for key, was := range first {
		if is := p.image().Shards[key]; is.Since <= was.Since || stream.IsPause(key.Shard) || !stream.IsCommand(key.Shard) {
			t.Errorf("%q: since %d, before %d", key.Shard, is.Since, was.Since)
		}
		if of, is := stream.RepublishedTable(key.Shard); of != "a" || !is {
			t.Errorf("%q is of %q", key.Shard, of)
		}
	}
	if err := errors.Join(p.set("", true), p.set("", false)); err != nil || !load().Running() {
		t.Errorf("behind a pause: %v, %+v", err, load())
	}
	p.apply(stream.Rebuild(p.image(), "s", now))
	if r := load(); r != nil {
		t.Errorf("a rebuild keeps %+v", r)
	}
	save(next)
	p.apply(stream.Reset{Stream: "s", Shards: []string{"a"}, Epoch: 9, Now: now}.Batch(p.image()))
	if r := load(); r != nil {
		t.Errorf("a reset keeps %+v", r)
	}
	save(next)
	damaged := store.ShardChange{Key: store.Key{Stream: "s", Shard: "\x02\x02\x03a"}, Parts: []store.Part{{Kind: store.Noted, Bytes: []byte("no request")}}}
	p.apply(&store.Batch{Shards: []store.ShardChange{damaged}})
	if _, err := stream.LoadRepublish(t.Context(), p.store, table); !errors.Is(err, stream.ErrDamaged) {
		t.Errorf("a damaged request: %v", err)
	}
}
