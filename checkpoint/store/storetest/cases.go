package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	equal(t, "a", scan(t, f, "a"), view("", 0, 0).Views[0].Changes)
	equal(t, "a+", scan(t, f, "a+"), view("", 20, 20).Views[0].Changes)
	got, err := f.Lookup(ctx, "aa", store.Asks(entity(0), entity(10)), nil)
	equal(t, "lookup", got, []store.Entry{{}, Entry(10)})
	equal(t, "error", err, nil)
}

// registration returns one of the stream of a shard.
func registration(key store.Key) store.Registration {
	r := Registration(uint32(len(key.Stream)))
	r.Stream = key.Stream
	return r
}

func testForget(t *testing.T, f Fixture) {
	p := Progress(1)
	fill := func(key store.Key) {
		apply(t, f, &store.Batch{Registrations: []store.Registration{registration(key)}, Shards: []store.ShardChange{{Key: key, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("g")}}}}})
		apply(t, f, view(key.Stream, 1, 9))
	}
	fill(Orders)
	fill(Items)
	q := Progress(2)
	b := view(Orders.Stream, 3, 3)
	again := Registration(9)
	b.Forget, b.Registrations = []string{Orders.Stream, "unknown"}, []store.Registration{again}
	b.Shards = []store.ShardChange{{Key: Orders, Progress: &q}}
	apply(t, f, b)
	equal(t, "image", load(t, f), store.Image{Registrations: []store.Registration{registration(Items), again}, Shards: map[store.Key]store.Progress{Orders: q, Items: p}})
	equal(t, "orders", scan(t, f, "orders"), view("", 3, 3).Views[0].Changes)
	equal(t, "orders by row", byRow(t, f, Orders, 0, 99), named(3))
	equal(t, "items by row", len(byRow(t, f, Orders, 0, 99)), 1)
	equal(t, "parts of orders", len(parts(t, f, Orders, store.Gaps, 0)), 0)
	equal(t, "items", len(scan(t, f, "items")), 9)
	equal(t, "parts of items", len(parts(t, f, Items, store.Gaps, 0)), 1)
	apply(t, f, &store.Batch{Forget: []string{Orders.Stream}})
	equal(t, "orders", len(scan(t, f, "orders")), 0)
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
	registered := func(change func(r *store.Registration)) *store.Batch {
		bad := Registration(2)
		change(&bad)
		return &store.Batch{Epoch: 1, Registrations: []store.Registration{Registration(1), bad}}
	}
	late := p
	late.Saved = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	ranged := p
	ranged.Snapshot.First = ranged.Snapshot.Last + 1
	for name, b := range map[string]*store.Batch{
		"an unknown state":         entry(func(e *store.Entry) { e.State = 5 }),
		"an entry without a state": entry(func(e *store.Entry) { e.State = store.Unknown }),
		"an entry without shard":   entry(func(e *store.Entry) { e.Shard = "" }),
		"an offset of nothing":     entry(func(e *store.Entry) { e.At.TP = 0 }),
		"a live one absent since":  entry(func(e *store.Entry) { e.State, e.Since = store.Live, day }),
		"an absent one's digest":   entry(func(e *store.Entry) { e.State, e.Digest[0] = store.Absent, 1 }),
		"a fraction of absence":    entry(func(e *store.Entry) { e.State, e.Digest, e.Since = store.Absent, [16]byte{}, day }),
		"absence elsewhere": entry(func(e *store.Entry) {
			e.State, e.Digest, e.Since = store.Absent, [16]byte{}, day.Truncate(time.Second).In(time.FixedZone("", 60))
		}),
		"absence at no time":       entry(func(e *store.Entry) { e.State, e.Digest, e.Since = store.Absent, [16]byte{}, late.Saved }),
		"an empty entity":          {Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, {Entry: Entry(1)}}}}},
		"a long entity":            {Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, {Entity: make([]byte, store.MaxEntity+1), Entry: Entry(1)}}}}},
		"a view without stream":    {Views: []store.ViewChange{{Changes: []store.Change{good}}}},
		"a shard without name":     {Shards: []store.ShardChange{{Key: Orders, Progress: &p}, {Key: store.Key{Stream: "orders"}}}},
		"an unknown kind of part":  {Shards: []store.ShardChange{{Key: Orders, Progress: &p, Parts: []store.Part{{Kind: 99}}}}},
		"an unknown kind to clear": {Shards: []store.ShardChange{{Key: Orders, Progress: &p, Clear: []store.Kind{0}}}},
		"an impossible time":       {Shards: []store.ShardChange{{Key: Orders, Progress: &late}}},
		"an impossible range":      {Shards: []store.ShardChange{{Key: Orders, Progress: &ranged}}},
		"no number of a TP":        registered(func(r *store.Registration) { r.Number = 0 }),
		"no stream of a TP":        registered(func(r *store.Registration) { r.Stream = "" }),
		"no name of a TP":          registered(func(r *store.Registration) { r.TP = "" }),
		"a message beyond":         registered(func(r *store.Registration) { r.Last.Offset = r.Next }),
	} {
		if err := f.Apply(ctx, b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	equal(t, "image", load(t, f), store.Image{Shards: map[store.Key]store.Progress{}})
	equal(t, "view", len(scan(t, f, "orders")), 0)
}

// calls calls each method of a store.
func calls(ctx context.Context, s store.Store) map[string]error {
	_, load := s.Load(ctx)
	_, lookup := s.Lookup(ctx, "orders", store.Asks(entity(1)), nil)
	_, _, progress := s.Progress(ctx, Orders)
	_, byRow := s.ByRow(ctx, Orders, 0, 1, nil)
	_, forget := s.ForgetAbsent(ctx, "orders", day, 1)
	errs := map[string]error{"Load": load, "Progress": progress, "Lookup": lookup, "ByRow": byRow, "ForgetAbsent": forget, "Apply": s.Apply(ctx, view("orders", 1, 1)), "Sync": s.Sync(ctx)}
	for _, err := range s.Parts(ctx, Orders, store.Gaps, 0) {
		errs["Parts"] = err
	}
	for _, err := range s.Scan(ctx, "orders") {
		errs["Scan"] = err
	}
	return errs
}

func wantErrors(t *testing.T, got map[string]error, want error) {
	t.Helper()
	if len(got) != 9 {
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
	for range f.Scan(cancelled, "orders") {
		cancel(cause)
	}
	wantErrors(t, calls(cancelled, f), cause)
	equal(t, "view", len(scan(t, f, "orders")), 2)
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
	ask := make([]store.Ask, size)
	for i := range ask {
		ask[i] = store.Ask{Entity: entity(uint64(i)), Shard: Orders.Shard, Row: uint64(i)}
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
				rows, err := f.ByRow(ctx, Orders, 0, 2*size, nil)
				if err != nil || len(rows) != 0 && len(rows) != size {
					t.Errorf("%d entities by row, %v", len(rows), err)
					return
				}
				for _, c := range rows {
					if c.Entry != rows[0].Entry {
						t.Errorf("by row %+v and %+v are seen", rows[0].Entry, c.Entry)
						return
					}
				}
				image, err := f.Load(ctx)
				if err != nil || image.Shards[Orders].Position != image.Epoch || len(image.Registrations) > 0 && image.Registrations[0].Epoch != image.Epoch {
					t.Errorf("a load is mixed: %+v, %v", image, err)
					return
				}
			}
		})
	}
	for n := uint64(1); n <= rounds; n++ {
		p := Progress(n)
		b := &store.Batch{Epoch: n, Registrations: []store.Registration{{Number: 1, Stream: "items", TP: "a", Epoch: n}},
			Shards: []store.ShardChange{{Key: Orders, Progress: &p}}, Views: []store.ViewChange{{Stream: "orders"}}}
		if n%50 == 49 {
			b.Forget = []string{"orders"}
		}
		for i := range ask {
			b.Views[0].Changes = append(b.Views[0].Changes, store.Change{Entity: ask[i].Entity, Entry: Entry(n)})
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
	return &model{image: store.Image{Shards: map[store.Key]store.Progress{}},
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
		m.image.Registrations = slices.DeleteFunc(m.image.Registrations, func(r store.Registration) bool { return r.Stream == stream })
	}
	if b.Epoch > 0 {
		m.image.Epoch = b.Epoch
	}
	for _, r := range b.Registrations {
		m.image.Registrations = slices.DeleteFunc(m.image.Registrations, func(o store.Registration) bool { return o.Number == r.Number })
		m.image.Registrations = append(m.image.Registrations, r)
	}
	slices.SortFunc(m.image.Registrations, func(a, b store.Registration) int { return int(a.Number) - int(b.Number) })
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
			if m.views[v.Stream][string(c.Entity)] = c.Entry; c.Entry.State == store.Unknown {
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
	if image.Epoch != m.image.Epoch || !slices.Equal(image.Registrations, m.image.Registrations) || !maps.Equal(image.Shards, m.image.Shards) {
		return fmt.Errorf("the image is\n%+v\nwant\n%+v", image, m.image)
	}
	found := map[string]string{}
	for _, key := range crashShards {
		for kind := store.Gaps; kind <= store.LateEntities; kind++ {
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
		if err := m.differenceOfView(s, key.Stream); err != nil {
			return fmt.Errorf("view of %s: %w", key.Stream, err)
		}
	}
	return nil
}

// differenceOfView returns what of a view is not as in the model, by entity or by row.
func (m *model) differenceOfView(s store.Store, stream string) error {
	want := m.views[stream]
	n := 0
	for c, err := range s.Scan(ctx, stream) {
		if err != nil {
			return err
		}
		if e, ok := want[string(c.Entity)]; !ok || e != c.Entry {
			return fmt.Errorf("entity %q has %+v", c.Entity, c.Entry)
		}
		n++
	}
	if n != len(want) {
		return fmt.Errorf("%d entities, want %d", n, len(want))
	}
	if err := m.differenceOfLookup(s, stream); err != nil {
		return err
	}
	absent := 0
	for _, e := range want {
		if e.State == store.Absent {
			absent++
		}
	}
	for i := range crashRows {
		list, err := s.ByRow(ctx, store.Key{Stream: stream, Shard: fmt.Sprint("db.t", i)}, 0, math.MaxInt, nil)
		if err != nil {
			return err
		}
		for j, c := range list {
			if want[string(c.Entity)] != c.Entry || c.Entry.State == store.Absent || j > 0 && c.Entry.Row < list[j-1].Entry.Row {
				return fmt.Errorf("entity %q is in row %d of shard %d, with %+v", c.Entity, c.Entry.Row, i, c.Entry)
			}
		}
		n -= len(list)
	}
	if n != absent {
		return fmt.Errorf("%d entities are in no row, want %d", n, absent)
	}
	return nil
}

// differenceOfLookup returns what a lookup of every entity that crash batches have finds otherwise.
func (m *model) differenceOfLookup(s store.Store, stream string) error {
	ask := make([]store.Ask, crashEntities)
	for i := range ask {
		name := entity(uint64(i))
		row := m.views[stream][string(name)]
		ask[i] = store.Ask{Entity: name, Shard: row.Shard, Row: row.Row + uint64(i%2)}
	}
	got, err := s.Lookup(ctx, stream, ask, nil)
	if err != nil {
		return err
	}
	for i, e := range got {
		if want := m.views[stream][string(ask[i].Entity)]; e != want {
			return fmt.Errorf("a lookup of %q finds %+v, want %+v", ask[i].Entity, e, want)
		}
	}
	return nil
}

func testModel(t *testing.T, f Fixture, batches int) {
	m := newModel()
	for n := uint64(1); n <= uint64(batches); n++ {
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
