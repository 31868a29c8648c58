package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/tests/must"
)

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
		"a live one absent since":  entry(func(e *store.Entry) { e.State, e.Since = store.Live, day }),
		"an absent one's digest":   entry(func(e *store.Entry) { e.State, e.Digest[0] = store.Absent, 1 }),
		"absence elsewhere": entry(func(e *store.Entry) {
			e.State, e.Digest, e.Since = store.Absent, [16]byte{}, day.Truncate(time.Second).In(time.FixedZone("", 60))
		}),
		"absence at no time":      entry(func(e *store.Entry) { e.State, e.Digest, e.Since = store.Absent, [16]byte{}, late.Saved }),
		"a long entity":           {Views: []store.ViewChange{{Stream: "orders", Changes: []store.Change{good, {Entity: make([]byte, store.MaxEntity+1), Entry: Entry(1)}}}}},
		"a view without stream":   {Views: []store.ViewChange{{Changes: []store.Change{good}}}},
		"a shard without name":    {Shards: []store.ShardChange{{Key: Orders, Progress: &p}, {Key: store.Key{Stream: "orders"}}}},
		"an unknown kind of part": {Shards: []store.ShardChange{{Key: Orders, Progress: &p, Parts: []store.Part{{Kind: 99}}}}},
		"an impossible time":      {Shards: []store.ShardChange{{Key: Orders, Progress: &late}}},
		"an impossible range":     {Shards: []store.ShardChange{{Key: Orders, Progress: &ranged}}},
		"no number of a TP":       registered(func(r *store.Registration) { r.Number = 0 }),
		"a message beyond":        registered(func(r *store.Registration) { r.Last.Offset = r.Next }),
	} {
		if err := f.Apply(ctx, b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	equal(t, "image", must.Get(f.Load(ctx))(t), store.Image{Shards: map[store.Key]store.Progress{}})
	equal(t, "view", len(must.Get(scanAll(f, "orders"))(t)), 0)
}

func calls(ctx context.Context, s store.Store) map[string]error {
	_, load := s.Load(ctx)
	_, lookup := s.Lookup(ctx, "orders", Asks(entity(1)), nil)
	_, _, progress := s.Progress(ctx, Orders)
	_, byRow := s.ByRow(ctx, Orders, 0, 1, nil)
	_, forget := s.ForgetAbsent(ctx, Orders, day, 1)
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

func testClosed(t *testing.T, f Fixture) {
	must.OK(t, f.Apply(ctx, view("orders", 1, 2)))
	cause := errors.New("the test ends it")
	cancelled, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range f.Scan(cancelled, "orders") {
		cancel(cause)
	}
	wantErrors(t, calls(cancelled, f), cause)
	equal(t, "view", len(must.Get(scanAll(f, "orders"))(t)), 2)
	for range 2 {
		must.OK(t, f.Close())
	}
	wantErrors(t, calls(ctx, f), store.ErrClosed)
}

func testWhole(t *testing.T, f Fixture) {
	const rounds, size = 60, 40
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
		if n%20 == 19 {
			b.Forget = []string{"orders"}
		}
		for i := range ask {
			b.Views[0].Changes = append(b.Views[0].Changes, store.Change{Entity: ask[i].Entity, Entry: Entry(n)})
		}
		must.OK(t, f.Apply(ctx, b))
	}
	done.Store(true)
	readers.Wait()
}

// RunBatches applies random batches, with a new start now and then: the store does as the
// one in memory.
func RunBatches(t *testing.T, f Fixture, batches int) {
	plain := memory.New()
	for n := uint64(1); n <= uint64(batches); n++ {
		b := CrashBatch(n, 64)
		must.OK(t, plain.Apply(ctx, b))
		must.OK(t, f.Apply(ctx, b))
		if n%7 == 0 {
			// Absent entities of a shard or, each second time, of a stream.
			of := store.Key{Stream: crashShards[n%3].Stream}
			if n%2 == 0 {
				of.Shard = fmt.Sprint("db.t", rand.IntN(crashRows))
			}
			before, limit := Entry(2).Since.Add(time.Duration(n-rand.Uint64N(n))*time.Minute+time.Duration(rand.IntN(2))), rand.IntN(6)
			want, err := plain.ForgetAbsent(ctx, of, before, limit)
			got, failed := f.ForgetAbsent(ctx, of, before, limit)
			equal(t, "forgotten", []any{got, failed}, []any{want, err})
		}
		if f.Reopen != nil && rand.IntN(20) == 0 {
			f.Store = f.Reopen()
		}
		if n%10 == 0 {
			if err := difference(f, plain); err != nil {
				t.Fatalf("after batch %d: %v", n, err)
			}
		}
	}
}
