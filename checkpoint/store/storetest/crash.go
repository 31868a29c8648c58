package storetest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
)

// crashShards are the shards that crash batches change, of a stream each. One stream is the
// beginning of another.
var crashShards = []store.Key{Orders, Items, {Stream: "orders+", Shard: "db.orders"}}

const crashRows = 3

const crashEntities = 500

// CrashBatch returns the n-th of a series of batches, from 1 on. Each one changes all that a store
// holds, and bears n as its epoch. The largest parts have size bytes and more.
func CrashBatch(n uint64, size int) *store.Batch {
	r := rand.New(rand.NewPCG(n, 16))
	b := &store.Batch{Epoch: n, Registrations: []store.Registration{Registration(r.Uint32N(5) + 1)}}
	b.Registrations[0].Epoch = n
	if n%31 == 0 {
		b.Forget = []string{crashShards[r.IntN(len(crashShards))].Stream}
	}
	for _, key := range crashShards {
		p := Progress(n)
		c := store.ShardChange{Key: key, Progress: &p}
		for range r.IntN(4) {
			part := store.Part{Kind: store.Gaps + store.Kind(r.IntN(2)), Number: uint64(r.IntN(50))}
			if r.IntN(4) > 0 {
				part.Bytes = bytes.Repeat([]byte{byte(n), byte(n >> 8), byte(r.Uint32())}, r.IntN(size/3))
			}
			c.Parts = append(c.Parts, part)
		}
		if r.IntN(10) == 0 {
			c.Clear = []store.Kind{store.Gaps}
		}
		if n%13 == 0 {
			c.Remove = true
			if n%2 == 0 {
				c.Progress = nil
			}
		}
		b.Shards = append(b.Shards, c)
		v := store.ViewChange{Stream: key.Stream}
		for range r.IntN(60) {
			change := store.Change{Entity: entity(r.Uint64N(crashEntities))}
			if r.IntN(5) > 0 {
				change.Entry = Entry(n + r.Uint64N(4))
				change.Entry.Shard, change.Entry.Row = fmt.Sprint("db.t", r.IntN(crashRows)), 1+r.Uint64N(300)
			}
			v.Changes = append(v.Changes, change)
		}
		slices.SortFunc(v.Changes, func(a, b store.Change) int { return slices.Compare(a.Entity, b.Entity) })
		b.Views = append(b.Views, v)
	}
	return b
}

func reads() map[string]func(s store.Store) (any, error) {
	all := map[string]func(s store.Store) (any, error){"the image": func(s store.Store) (any, error) { return s.Load(ctx) }}
	for _, key := range crashShards {
		all["the progress of "+key.Stream] = func(s store.Store) (any, error) {
			p, found, err := s.Progress(ctx, key)
			return []any{p, found}, err
		}
		for kind := store.Gaps; kind <= store.LateEntities; kind++ {
			for _, from := range []uint64{0, rand.Uint64N(60)} {
				all[fmt.Sprint("parts of ", key.Stream, " of kind ", kind, " from ", from)] = func(s store.Store) (any, error) { return partsFrom(s, key, kind, from) }
			}
		}
		all["the view of "+key.Stream] = func(s store.Store) (any, error) { return scanAll(s, key.Stream) }
		all["entities of "+key.Stream] = func(s store.Store) (any, error) {
			list, err := scanAll(s, key.Stream)
			if err != nil {
				return nil, err
			}
			rows := map[string]store.Entry{}
			for _, c := range list {
				rows[string(c.Entity)] = c.Entry
			}
			ask := make([]store.Ask, crashEntities)
			for i := range ask {
				// By rows that are right, wrong, or in no shard.
				ask[i].Entity = entity(uint64(i))
				row := rows[string(ask[i].Entity)]
				ask[i].Shard, ask[i].Row = []string{row.Shard, "", "unknown"}[i%3], row.Row+uint64(i%2)
			}
			return s.Lookup(ctx, key.Stream, ask, []store.Entry{Entry(1)})
		}
		for i := range crashRows {
			for limit, after := range map[int]uint64{math.MaxInt: 0, 1 + rand.IntN(20): rand.Uint64N(300)} {
				all[fmt.Sprint(limit, " rows of ", key.Stream, i, " after ", after)] = func(s store.Store) (any, error) {
					return s.ByRow(ctx, store.Key{Stream: key.Stream, Shard: fmt.Sprint("db.t", i)}, after, limit, nil)
				}
			}
		}
	}
	return all
}

func difference(s, other store.Store) error {
	for what, read := range reads() {
		got, err := read(s)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if want, err := read(other); err != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("%s: got\n%.2000v\nwant\n%.2000v, %w", what, got, want, err)
		}
	}
	return nil
}

// Prefix returns how many crash batches of this size a store holds, and an error unless it holds
// just what the first so many leave.
func Prefix(s store.Store, size int) (uint64, error) {
	image, err := s.Load(ctx)
	if err != nil {
		return 0, err
	}
	plain := memory.New()
	for n := uint64(1); n <= image.Epoch; n++ {
		if err := plain.Apply(ctx, CrashBatch(n, size)); err != nil {
			return 0, err
		}
	}
	if err := difference(s, plain); err != nil {
		return 0, fmt.Errorf("after %d batches: %w", image.Epoch, err)
	}
	return image.Epoch, nil
}
