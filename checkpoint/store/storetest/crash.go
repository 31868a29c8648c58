package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"bridge/checkpoint/store"
)

// crashShards are the shards that crash batches change, of a stream each.
var crashShards = []store.Key{Orders, Items, {Stream: "log", Shard: "db.log_1"}}

// crashRows is how many shards of each stream have the rows of entities.
const crashRows = 3

// crashEntities is how many entities each stream has.
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

// Prefix returns how many crash batches of this size a store holds, and an error unless it holds
// just what the first so many leave.
func Prefix(s store.Store, size int) (uint64, error) {
	image, err := s.Load(ctx)
	if err != nil {
		return 0, err
	}
	m := newModel()
	for n := uint64(1); n <= image.Epoch; n++ {
		m.apply(CrashBatch(n, size))
	}
	if err := m.difference(s); err != nil {
		return 0, fmt.Errorf("after %d batches: %w", image.Epoch, err)
	}
	return image.Epoch, nil
}
