package stream_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

func TestBegin(t *testing.T) {
	s := newShard(t, memory.New())
	s.apply(t, store.ShardChange{Key: key, Progress: &store.Progress{Since: 5, Saved: base}})
	s.reopen(t)
	if s.p.State().Started {
		t.Fatal("the decision was made")
	}
	first := must.Get(stream.StartProgress(event.Capability, stream.StartSetting{Latest: true}, 300_000))(t)
	seed := stream.SeedRange(first)
	if seed != (source.Range{First: 200_001, Last: 300_000}) || !stream.SeedRange(store.Progress{}).Empty() {
		t.Errorf("the seed is %v", seed)
	}
	var committed []uint64
	for id := seed.First; id <= seed.Last; id++ {
		if id != 250_000 {
			committed = append(committed, id)
		}
	}
	change := must.Get(s.p.Begin(stream.Beginning{First: first, Committed: committed, Epoch: 6, At: base, Now: base}))(t)
	s.apply(t, change)
	for range 2 {
		s.want(t, 300_000, 250_000)
		if !s.p.State().Started || s.p.State().Floor != 300_000 || s.p.State().Since != 5 || s.p.NextLow() != 250_000 || s.p.State().Snapshot.Last != 300_000 {
			t.Errorf("floor %d, since %d, low %d", s.p.State().Floor, s.p.State().Since, s.p.NextLow())
		}
		s.reopen(t)
	}
	// A late message of a former process does not move the floor.
	s.p.Note(7, sink.FromTail, &sink.State{Epoch: 5, Seq: 9, Floor: 3})
	if s.p.State().Floor != 300_000 {
		t.Errorf("the floor is %d", s.p.State().Floor)
	}
}

// published returns a shard that was published up to 10, but for 3 and 7, and 14 ahead.
func publishedShard(t *testing.T) *shard {
	s := newShard(t, memory.New())
	s.note(4, sink.FromTail, 1, 2, 4, 5, 6, 8, 9, 10)
	s.note(4, sink.FromReconcile, 14)
	s.flush(t, base)
	return s
}

func TestSet(t *testing.T) {
	for name, c := range map[string]struct {
		kind      event.Kind
		id, floor uint64
		missing   []uint64
		snapshot  source.Range
	}{
		"back":                     {event.Release, 5, 0, []uint64{3}, source.Range{}},
		"back to what is missing":  {event.Release, 7, 0, []uint64{3, 7}, source.Range{}},
		"back, of a capability":    {event.Capability, 5, 0, []uint64{3}, source.Range{}},
		"to the beginning":         {event.Release, 0, 0, nil, source.Range{}},
		"forward":                  {event.Release, 20, 20, []uint64{3, 7}, source.Range{}},
		"forward, of a capability": {event.Capability, 20, 0, []uint64{3, 7}, source.Range{First: 11, Last: 20}},
		"forward, of either":       {"", 20, 20, []uint64{3, 7}, source.Range{First: 11, Last: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			s := publishedShard(t)
			if moved := s.set(t, c.kind, c.id); moved.Missing != uint64(len(c.missing)) {
				t.Fatalf("%+v", moved)
			}
			// Rule 28: the next catch-up does not undo it.
			s.note(4, sink.FromTail, 1, 6, 7, 8, 30)
			s.flush(t, base)
			s.want(t, c.id, c.missing...)
			if s.p.State().Floor != c.floor || s.p.State().Since != 5 || s.p.State().Snapshot != c.snapshot || s.p.Ahead(14) || s.p.Ahead(30) {
				t.Errorf("floor %d, since %d, snapshot %v", s.p.State().Floor, s.p.State().Since, s.p.State().Snapshot)
			}
			if image, err := s.store.Load(context.Background()); err != nil || image.Epoch != 5 {
				t.Errorf("epoch %d, %v", image.Epoch, err)
			}
		})
	}
	t.Run("back below the floor", func(t *testing.T) {
		s := newShard(t, memory.New())
		s.apply(t, store.ShardChange{Key: key, Progress: &store.Progress{
			Started: true, Position: 70, Floor: 70, Snapshot: source.Range{First: 40, Last: 70}, Saved: base}})
		s.set(t, event.Capability, 50)
		if got := s.p.State().Snapshot; s.p.State().Floor != 50 || got != (source.Range{First: 40, Last: 50}) {
			t.Errorf("floor %d, snapshot %v", s.p.State().Floor, got)
		}
	})
	t.Run("a damaged ledger is dropped", func(t *testing.T) {
		s := publishedShard(t)
		s.apply(t, store.ShardChange{Key: key, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("damaged")}}})
		if moved := s.set(t, "", 5); !errors.Is(moved.Damaged, ledger.ErrDamaged) {
			t.Fatalf("%+v", moved)
		}
		s.want(t, 5)
	})
	t.Run("the id of a release shard holds for any KEY and table", func(t *testing.T) {
		for kind, want := range map[event.Kind]store.Meaning{
			event.Release:    {Kind: "release", ID: "id"},
			event.Capability: {Kind: "capability", Table: "shop.orders", ID: "id", Key: []string{"number"}},
		} {
			s := publishedShard(t)
			was := store.Meaning{Kind: string(kind), Table: "shop.orders", ID: "id", Key: []string{"number"}}
			s.apply(t, store.ShardChange{Key: key, Parts: []store.Part{{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &was)}}})
			s.set(t, kind, 5)
			if got, err := store.LoadMeaning(context.Background(), s.store, key); err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("%s: %+v, %v", kind, got, err)
			}
		}
	})
	t.Run("a shard that is not known", func(t *testing.T) {
		s := newShard(t, memory.New())
		s.set(t, event.Release, 5)
		s.want(t, 5)
	})
}

func TestDispute(t *testing.T) {
	m := memory.New()
	var changes []store.Change
	for row := uint64(1); row <= 2500; row++ {
		changes = append(changes, store.Change{Entity: fmt.Appendf(nil, "e%d", row), Entry: store.Entry{Shard: key.Shard, Row: row, State: store.Live}})
	}
	ctx := context.Background()
	must.OK(t, m.Apply(ctx, &store.Batch{Views: []store.ViewChange{{Stream: key.Stream, Changes: changes}}}))
	must.OK(t, stream.DisputeAbove(ctx, m, key, 7, 5))
	n := 0
	for change, err := range m.Scan(ctx, key.Stream) {
		if n++; err != nil || change.Entry.Disputed != (change.Entry.Row > 7) {
			t.Fatalf("%+v, %v", change, err)
		}
		// What is on the bus is read again.
		m := stream.Message{State: sink.State{Epoch: 4, Seq: 9, Digest: change.Entry.Digest}, Shard: key.Shard, Row: change.Entry.Row, At: store.At{TP: 1, Offset: 7}}
		if next, applied := stream.Apply(change.Entry, &m); !applied || next.Disputed != (change.Entry.Row > 7) {
			t.Fatalf("%+v", next)
		}
		m.State.Epoch, m.At.Offset = 6, 8
		if next, _ := stream.Apply(change.Entry, &m); next.Disputed {
			t.Fatalf("a newer message leaves %+v", next)
		}
	}
	if n != 2500 {
		t.Errorf("%d entries", n)
	}
}

func TestResetAndRebuild(t *testing.T) {
	ctx := context.Background()
	others := store.Key{Stream: "others", Shard: "others"}
	setUp := func(t *testing.T) (*shard, *store.Image) {
		s := publishedShard(t)
		s.p.Note(20, sink.FromTail, &sink.State{Epoch: 4, Seq: 50, Floor: 6})
		s.flush(t, base)
		b := &store.Batch{
			Registrations: []store.Registration{{Number: 1, Stream: key.Stream, TP: "a/0", Next: 7}, {Number: 2, Stream: "others", TP: "a/0", Next: 7}},
			Shards:        []store.ShardChange{{Key: others, Progress: &store.Progress{Position: 3, Saved: base}}},
		}
		must.OK(t, s.store.Apply(ctx, b))
		image := must.Get(s.store.Load(ctx))(t)
		return s, &image
	}
	after := func(t *testing.T, s *shard, b *store.Batch) []store.Registration {
		s.command(t, b)
		image, err := s.store.Load(ctx)
		if err != nil || image.Shards[others].Position != 3 {
			t.Fatalf("%+v, %v", image, err)
		}
		return image.Registrations
	}
	t.Run("reset", func(t *testing.T) {
		s, image := setUp(t)
		left := after(t, s, stream.Reset{Stream: key.Stream, Epoch: 5, Now: base}.Batch(image))
		if len(left) != 2 || left[0].Next != 7 {
			t.Errorf("registrations %+v", left)
		}
		s.note(4, sink.FromTail, 1, 2, 30)
		s.flush(t, base)
		if s.want(t, 0); s.p.State().Started || s.p.State().Since != 5 || s.p.State().Floor != 0 {
			t.Errorf("started %t, since %d, floor %d", s.p.State().Started, s.p.State().Since, s.p.State().Floor)
		}
	})
	t.Run("reset of a shard that only the configuration knows", func(t *testing.T) {
		s, image := setUp(t)
		after(t, s, stream.Reset{Stream: key.Stream, Shards: []string{key.Shard, "new"}, Epoch: 5, Now: base}.Batch(image))
		now, err := s.store.Load(ctx)
		if err != nil || len(now.Shards) != 3 || now.Shards[store.Key{Stream: key.Stream, Shard: "new"}] != now.Shards[key] || now.Shards[key].Since != 5 {
			t.Errorf("%+v, %v", now.Shards, err)
		}
	})
	t.Run("rebuild", func(t *testing.T) {
		s, image := setUp(t)
		left := after(t, s, stream.Rebuild(image, key.Stream, base))
		if len(left) != 1 || left[0].Stream != "others" {
			t.Errorf("registrations %+v", left)
		}
		s.p.Note(8, sink.FromTail, &sink.State{Epoch: 4, Seq: 49, Floor: 6})
		s.flush(t, base)
		if s.want(t, 8, 7); !s.p.State().Started || s.p.State().Floor != 6 || !s.p.State().ReconcileDue {
			t.Errorf("started %t, floor %d", s.p.State().Started, s.p.State().Floor)
		}
	})
}

func TestNextEpoch(t *testing.T) {
	high := uint64(base.UnixMilli()) + 1000
	for name, c := range map[string]struct {
		image store.Image
		want  uint64
	}{
		"of an empty store":             {store.Image{}, uint64(base.UnixMilli())},
		"above that of the store":       {store.Image{Epoch: high}, high + 1},
		"above what was met on the bus": {store.Image{Epoch: 7, Registrations: []store.Registration{{Epoch: 5}, {Epoch: high}}}, high + 1},
	} {
		if got := stream.NextEpoch(&c.image, base); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestIgnoreBelow(t *testing.T) {
	image := store.Image{Shards: map[store.Key]store.Progress{
		{Stream: "s", Shard: "a"}: {Since: 5}, {Stream: "s", Shard: "b"}: {Since: 3}, {Stream: "s", Shard: "c"}: {},
	}}
	for want, shards := range map[uint64][]string{5: {"a"}, 3: {"a", "b"}, 0: {"a", "b", "c"}} {
		if got := stream.IgnoreBelow(&image, "s", shards); got != want {
			t.Errorf("%v: %d, want %d", shards, got, want)
		}
	}
	if a, b := stream.IgnoreBelow(&image, "s", []string{"a", "new"}), stream.IgnoreBelow(&image, "s", nil); a != 0 || b != 0 {
		t.Errorf("%d, %d", a, b)
	}
}

func TestRestart(t *testing.T) {
	s := publishedShard(t)
	s.apply(t, store.ShardChange{Key: key, Parts: []store.Part{{Kind: store.Published, Number: 1, Bytes: []byte("rows")}}})
	s.p.Note(12, sink.FromTail, &sink.State{Epoch: 4, Seq: 20, Floor: 2, Low: 3})
	change := must.Get(s.p.Restart(5, base))(t)
	s.apply(t, change)
	for range 2 {
		if s.want(t, 0); !s.p.State().Started || s.p.State().Since != 5 || s.p.State().Floor != 0 || s.p.State().Low != 0 || s.p.Ahead(14) || s.p.NextLow() != 1 {
			t.Errorf("since %d, floor %d, low %d", s.p.State().Since, s.p.State().Floor, s.p.State().Low)
		}
		s.reopen(t)
	}
	for part := range s.store.Parts(context.Background(), key, store.Published, 0) {
		t.Errorf("the rows published last are there: %+v", part)
	}
	s.note(4, sink.FromTail, 1, 2)
	s.note(5, sink.FromTail, 3)
	s.flush(t, base)
	s.want(t, 3, 1, 2)
	if s.p.State().ReconcileDue {
		t.Error("a reconcile is due")
	}
}
