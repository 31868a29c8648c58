package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/checkpoint/store"
)

func testStreams(t *testing.T, f Fixture) {
	for i, stream := range []string{"a", "aa", "a+", "b"} {
		apply(t, f, view(stream, uint64(10*i), uint64(10*i)))
	}
	equal(t, "a", scan(t, f, "a", nil), view("", 0, 0).Views[0].Changes)
	equal(t, "a+", scan(t, f, "a+", nil), view("", 20, 20).Views[0].Changes)
	got, err := f.Lookup(ctx, "aa", [][]byte{entity(0), entity(10)}, nil)
	equal(t, "lookup", got, []store.Entry{{}, Entry(10)})
	equal(t, "error", err, nil)
}

func testForget(t *testing.T, f Fixture) {
	p := Progress(1)
	fill := func(key store.Key) {
		apply(t, f, &store.Batch{TPs: map[string]store.Offset{"a": {Covered: 9}}, Shards: []store.ShardChange{{Key: key, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("g")}}}}})
		apply(t, f, view(key.Stream, 1, 9))
	}
	fill(Orders)
	fill(Items)
	q := Progress(2)
	b := view(Orders.Stream, 3, 3)
	b.Forget, b.TPs = []string{Orders.Stream, "unknown"}, map[string]store.Offset{"a": {Covered: -1}}
	b.Shards = []store.ShardChange{{Key: Orders, Progress: &q}}
	apply(t, f, b)
	equal(t, "image", load(t, f), store.Image{TPs: map[string]store.Offset{"a": {Covered: -1}}, Shards: map[store.Key]store.Progress{Orders: q, Items: p}})
	equal(t, "orders", scan(t, f, "orders", nil), view("", 3, 3).Views[0].Changes)
	equal(t, "parts of orders", len(parts(t, f, Orders, store.Gaps, 0)), 0)
	equal(t, "items", len(scan(t, f, "items", nil)), 9)
	equal(t, "parts of items", len(parts(t, f, Items, store.Gaps, 0)), 1)
	apply(t, f, &store.Batch{Forget: []string{Orders.Stream}})
	equal(t, "orders", len(scan(t, f, "orders", nil)), 0)
	equal(t, "shards", len(load(t, f).Shards), 1)
}

func testInvalid(t *testing.T, f Fixture) {
	p := Progress(1)
	good := store.Change{Entity: entity(1), Entry: Entry(1)}
	entry := func(change func(e *store.Entry)) *store.Batch {
		bad := store.Change{Entity: entity(2), Entry: Entry(1)}
		change(&bad.Entry)
		return &store.Batch{Shards: []store.ShardChange{{Key: Orders, Progress: &p}}, Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, bad}}}}
	}
	late := p
	late.Saved = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	ranged := p
	ranged.Snapshot.First = ranged.Snapshot.Last + 1
	for name, b := range map[string]*store.Batch{
		"an unknown fate":          entry(func(e *store.Entry) { e.Fate = 4 }),
		"an entry without fate":    entry(func(e *store.Entry) { e.Fate = store.None }),
		"an entry without shard":   entry(func(e *store.Entry) { e.Shard = "" }),
		"a negative offset":        entry(func(e *store.Entry) { e.Offset = -1 }),
		"an offset of nothing":     entry(func(e *store.Entry) { e.TP = "" }),
		"a live one absent since":  entry(func(e *store.Entry) { e.Fate, e.Since = store.Live, day }),
		"an absent one's digest":   entry(func(e *store.Entry) { e.Fate, e.Digest[0] = store.Absent, 1 }),
		"a fraction of absence":    entry(func(e *store.Entry) { e.Fate, e.Digest, e.Since = store.Absent, [16]byte{}, day }),
		"an empty entity":          {Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, {Entry: Entry(1)}}}}},
		"a long entity":            {Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, {Entity: make([]byte, store.MaxEntity+1), Entry: Entry(1)}}}}},
		"a view without stream":    {Views: []store.ViewChange{{Changes: []store.Change{good}}}},
		"a shard without name":     {Shards: []store.ShardChange{{Key: Orders, Progress: &p}, {Key: store.Key{Stream: "orders"}}}},
		"an unknown kind of part":  {Shards: []store.ShardChange{{Key: Orders, Progress: &p, Parts: []store.Part{{Kind: 99}}}}},
		"an unknown kind to clear": {Shards: []store.ShardChange{{Key: Orders, Progress: &p, Clear: []store.Kind{0}}}},
		"an impossible time":       {Shards: []store.ShardChange{{Key: Orders, Progress: &late}}},
		"an impossible range":      {Shards: []store.ShardChange{{Key: Orders, Progress: &ranged}}},
		"an offset below -1":       {Fence: &store.Fence{Epoch: 1}, TPs: map[string]store.Offset{"a": {Covered: -2}}},
		"an offset without TP":     {Fence: &store.Fence{Epoch: 1}, TPs: map[string]store.Offset{"": {}}},
	} {
		if err := f.Apply(ctx, b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	equal(t, "image", load(t, f), store.Image{Shards: map[store.Key]store.Progress{}, TPs: map[string]store.Offset{}})
	equal(t, "view", len(scan(t, f, "orders", nil)), 0)
}

// calls calls each method of a store.
func calls(ctx context.Context, s store.Store) map[string]error {
	_, load := s.Load(ctx)
	_, lookup := s.Lookup(ctx, "orders", [][]byte{entity(1)}, nil)
	errs := map[string]error{"Load": load, "Lookup": lookup, "Apply": s.Apply(ctx, view("orders", 1, 1)), "Sync": s.Sync(ctx)}
	for _, err := range s.Parts(ctx, Orders, store.Gaps, 0) {
		errs["Parts"] = err
	}
	for _, err := range s.Scan(ctx, "orders", nil) {
		errs["Scan"] = err
	}
	return errs
}

func wantErrors(t *testing.T, got map[string]error, want error) {
	t.Helper()
	if len(got) != 6 {
		t.Errorf("calls that returned: %v", got)
	}
	for name, err := range got {
		if !errors.Is(err, want) {
			t.Errorf("%s returns %v, want %v", name, err, want)
		}
	}
}

func testCancelled(t *testing.T, f Fixture) {
	apply(t, f, view("orders", 1, 2))
	cause := errors.New("the test ends it")
	cancelled, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range f.Scan(cancelled, "orders", nil) {
		cancel(cause)
	}
	wantErrors(t, calls(cancelled, f), cause)
	equal(t, "view", len(scan(t, f, "orders", nil)), 2)
}

func testClosed(t *testing.T, f Fixture) {
	apply(t, f, view("orders", 1, 2))
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantErrors(t, calls(ctx, f), store.ErrClosed)
}

func testWhole(t *testing.T, f Fixture) {
	const rounds, size = 200, 40
	ask := make([][]byte, size)
	for i := range ask {
		ask[i] = entity(uint64(i))
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				got, err := f.Lookup(ctx, "orders", ask, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range got {
					if e.Seq != got[0].Seq {
						t.Errorf("a lookup sees batches %d and %d", got[0].Seq, e.Seq)
						return
					}
				}
				image, err := f.Load(ctx)
				if err != nil || image.Shards[Orders].Position != image.Fence.Epoch || image.TPs["a"].Covered != int64(image.Fence.Epoch) {
					t.Errorf("a load is mixed: %+v, %v", image, err)
					return
				}
			}
		})
	}
	for n := range uint64(rounds) {
		p := Progress(n)
		b := &store.Batch{Fence: &store.Fence{Epoch: n}, TPs: map[string]store.Offset{"a": {Covered: int64(n)}},
			Shards: []store.ShardChange{{Key: Orders, Progress: &p}}, Views: []store.ViewChange{{Stream: "orders"}}}
		if n%50 == 49 {
			b.Forget = []string{"orders"}
		}
		for i := range ask {
			b.Views[0].Changes = append(b.Views[0].Changes, store.Change{Entity: ask[i], Entry: Entry(n)})
		}
		apply(t, f, b)
	}
	done.Store(true)
	readers.Wait()
}

// model is a store as plain maps.
type model struct {
	image store.Image
	views map[string]map[string]store.Entry
	parts map[string]string
}

func newModel() *model {
	return &model{image: store.Image{Shards: map[store.Key]store.Progress{}, TPs: map[string]store.Offset{}},
		views: map[string]map[string]store.Entry{}, parts: map[string]string{}}
}

func partName(key store.Key, kind store.Kind, n uint64) string {
	return fmt.Sprintf("%s/%s/%d/%05d", key.Stream, key.Shard, kind, n)
}

// apply does what Store.Apply does.
func (m *model) apply(b *store.Batch) {
	drop := func(prefix string) {
		maps.DeleteFunc(m.parts, func(k, _ string) bool { return len(k) > len(prefix) && k[:len(prefix)] == prefix })
	}
	for _, stream := range b.Forget {
		delete(m.views, stream)
		drop(stream + "/")
		maps.DeleteFunc(m.image.Shards, func(k store.Key, _ store.Progress) bool { return k.Stream == stream })
	}
	if b.Fence != nil {
		m.image.Fence = *b.Fence
	}
	maps.Copy(m.image.TPs, b.TPs)
	for _, c := range b.Shards {
		if c.Progress != nil {
			m.image.Shards[c.Key] = *c.Progress
		}
		for _, kind := range c.Clear {
			drop(fmt.Sprintf("%s/%s/%d/", c.Key.Stream, c.Key.Shard, kind))
		}
		for _, p := range c.Parts {
			if name := partName(c.Key, p.Kind, p.Number); p.Bytes == nil {
				delete(m.parts, name)
			} else {
				m.parts[name] = string(p.Bytes)
			}
		}
	}
	for _, v := range b.Views {
		if m.views[v.Stream] == nil {
			m.views[v.Stream] = map[string]store.Entry{}
		}
		for _, c := range v.Changes {
			if m.views[v.Stream][string(c.Entity)] = c.Entry; c.Entry.Fate == store.None {
				delete(m.views[v.Stream], string(c.Entity))
			}
		}
	}
}

// difference returns what of s is not as in the model.
func (m *model) difference(s store.Store) error {
	image, err := s.Load(ctx)
	if err != nil {
		return err
	}
	if image.Fence != m.image.Fence || !maps.Equal(image.TPs, m.image.TPs) || !maps.Equal(image.Shards, m.image.Shards) {
		return fmt.Errorf("the image is\n%+v\nwant\n%+v", image, m.image)
	}
	found := map[string]string{}
	for _, key := range crashShards {
		for kind := store.Gaps; kind <= store.Meaning; kind++ {
			for p, err := range s.Parts(ctx, key, kind, 0) {
				if err != nil {
					return err
				}
				found[partName(key, kind, p.Number)] = string(p.Bytes)
			}
		}
	}
	if !maps.Equal(found, m.parts) {
		return fmt.Errorf("%d parts, want %d, or other bytes", len(found), len(m.parts))
	}
	for _, key := range crashShards {
		want := m.views[key.Stream]
		names := slices.Sorted(maps.Keys(want))
		n := 0
		for c, err := range s.Scan(ctx, key.Stream, nil) {
			if err != nil {
				return err
			}
			if n >= len(names) || names[n] != string(c.Entity) || want[names[n]] != c.Entry {
				return fmt.Errorf("entity %d of %s is %q with %+v", n, key.Stream, c.Entity, c.Entry)
			}
			n++
		}
		if n != len(names) {
			return fmt.Errorf("%s has %d entities, want %d", key.Stream, n, len(names))
		}
	}
	return nil
}

func testModel(t *testing.T, f Fixture) {
	m := newModel()
	for n := uint64(1); n <= 120; n++ {
		b := CrashBatch(n, 64)
		m.apply(b)
		apply(t, f, b)
		if rand.IntN(20) == 0 && f.Reopen != nil {
			f.Store = f.Reopen()
		}
		if n%10 == 0 {
			if err := m.difference(f); err != nil {
				t.Fatalf("after batch %d: %v", n, err)
			}
		}
	}
}
