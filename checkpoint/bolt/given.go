package bolt

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/source"
)

// saveGiven applies the ids that were given up and those that were found.
func saveGiven(shard *bbolt.Bucket, key checkpoint.Key, state *checkpoint.State) error {
	if len(state.Given) == 0 && len(state.Found) == 0 {
		return nil
	}
	b, err := shard.CreateBucketIfNotExists([]byte(givenBucket))
	if err != nil {
		return err
	}
	g := given{key, b}
	for _, r := range checkpoint.Union(state.Given...) {
		if err := g.add(r); err != nil {
			return err
		}
	}
	for _, r := range checkpoint.Union(state.Found...) {
		if err := g.remove(r); err != nil {
			return err
		}
	}
	return nil
}

// given is the ids of a shard that the ledger gave up, as ranges with ids between them.
type given struct {
	key checkpoint.Key
	b   *bbolt.Bucket
}

// add adds the ids of r.
func (g given) add(r source.Range) error {
	// One id more at either end, so that neighbours are joined.
	around := r
	if around.First > 0 {
		around.First--
	}
	if around.Last+1 > 0 {
		around.Last++
	}
	touched, err := g.from(around.First, around.Last, 0, nil)
	if err != nil {
		return err
	}
	for _, t := range touched {
		r = source.Range{First: min(r.First, t.First), Last: max(r.Last, t.Last)}
		if err := g.b.Delete(g.name(t)); err != nil {
			return err
		}
	}
	return g.put(r)
}

// remove removes the ids of r.
func (g given) remove(r source.Range) error {
	touched, err := g.from(r.First, r.Last, 0, nil)
	if err != nil {
		return err
	}
	for _, t := range touched {
		if err := g.b.Delete(g.name(t)); err != nil {
			return err
		}
	}
	for _, left := range checkpoint.Without(touched, []source.Range{r}) {
		if err := g.put(left); err != nil {
			return err
		}
	}
	return nil
}

// from appends to dst the ranges that hold an id of first to last, up to limit of them; 0 means all.
func (g given) from(first, last uint64, limit int, dst []source.Range) ([]source.Range, error) {
	var value []byte
	c := g.b.Cursor()
	name, _ := c.Seek(g.name(source.Range{First: first}))
	// The range before may reach as far as first.
	if name == nil {
		name, value = c.Last()
	} else if before, v := c.Prev(); before != nil {
		name, value = before, v
	} else {
		name, value = c.First()
	}
	for n := 0; name != nil && (limit == 0 || n < limit); name, value = c.Next() {
		r, err := g.read(name, value)
		if err != nil {
			return dst, err
		}
		if r.First > last {
			break
		}
		if r.Last >= first {
			dst = append(dst, r)
			n++
		}
	}
	return dst, nil
}

func (g given) name(r source.Range) []byte { return binary.BigEndian.AppendUint64(nil, r.First) }

func (g given) put(r source.Range) error {
	name := g.name(r)
	value := binary.BigEndian.AppendUint64(nil, r.Last)
	return g.b.Put(name, seal(value, shardBucket, g.key.Stream, g.key.Shard, givenBucket, string(name)))
}

func (g given) read(name, value []byte) (source.Range, error) {
	payload, err := unseal(value, shardBucket, g.key.Stream, g.key.Shard, givenBucket, string(name))
	if err != nil {
		return source.Range{}, err
	}
	return givenRange(name, payload)
}

// givenRange reads a range from its name and payload.
func givenRange(name, payload []byte) (source.Range, error) {
	if len(name) != 8 || len(payload) != 8 {
		return source.Range{}, damaged("the ids that were given up have a range named %.40q of %d bytes", name, len(payload))
	}
	r := source.Range{First: binary.BigEndian.Uint64(name), Last: binary.BigEndian.Uint64(payload)}
	if r.First > r.Last {
		return source.Range{}, damaged("the ids that were given up have a range from %d to %d", r.First, r.Last)
	}
	return r, nil
}

// GivenUp implements checkpoint.Views.
func (s *Store) GivenUp(ctx context.Context, key checkpoint.Key, from uint64, limit int, dst []source.Range) ([]source.Range, error) {
	err := ctx.Err()
	if err == nil && limit > 0 {
		err = s.view(func(tx *bbolt.Tx) (err error) {
			shard := bucketOf(tx, key.Stream, key.Shard)
			if shard == nil || shard.Bucket([]byte(givenBucket)) == nil {
				return nil
			}
			dst, err = given{key, shard.Bucket([]byte(givenBucket))}.from(from, 1<<64-1, limit, dst)
			return err
		})
	}
	if err != nil {
		return dst, fmt.Errorf("read the given-up ids of %s of stream %s: %w", key.Shard, key.Stream, err)
	}
	return dst, nil
}
