package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// recentSize is where a recent value ends and the next begins, in bytes. One more change may go beyond it.
const recentSize = 1 << 20

// place says where a change is: the number of its recent value, and where in the value it begins.
type place uint64

// offsetBits hold any offset in a recent value.
const offsetBits = 24

func placeOf(number uint64, offset int) place { return place(number<<offsetBits | uint64(offset)) }

func (p place) number() uint64 { return uint64(p) >> offsetBits }
func (p place) offset() int    { return int(p & (1<<offsetBits - 1)) }

// recentForms returns changes, of each entity the last one, in the order of rows, as the payloads of recent values.
func recentForms(changes []checkpoint.Change) [][]byte {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b checkpoint.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	kept := changes[:0]
	for i, c := range changes {
		if i+1 == len(changes) || !bytes.Equal(c.Entity, changes[i+1].Entity) {
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b checkpoint.Change) int { return cmp.Compare(a.Known.Row, b.Known.Row) })
	var forms [][]byte
	for _, c := range kept {
		if n := len(forms); n == 0 || len(forms[n-1]) >= recentSize {
			forms = append(forms, make([]byte, 0, min(len(kept)*96, recentSize+recentSize/8)))
		}
		last := &forms[len(forms)-1]
		*last = checkpoint.AppendChange(*last, c)
	}
	return forms
}

// put puts a's payloads behind the recent values in the bucket of its shard and notes the number of the first.
func (a *addition) put(shard *bbolt.Bucket) error {
	if len(a.forms) == 0 {
		return nil
	}
	b, err := shard.CreateBucketIfNotExists([]byte(recentBucket))
	if err != nil {
		return err
	}
	for i, form := range a.forms {
		number, err := b.NextSequence()
		if err != nil {
			return err
		}
		if i == 0 {
			a.first = number
		}
		name := binary.BigEndian.AppendUint64(nil, number)
		value := seal(bytes.Clone(form), shardBucket, a.key.Stream, a.key.Shard, recentBucket, string(name))
		if err := b.Put(name, value); err != nil {
			return err
		}
	}
	return nil
}

// recents reads the recent values of a shard in one transaction.
type recents struct {
	key    checkpoint.Key
	b      *bbolt.Bucket
	opened map[uint64][]byte
}

// recentsOf returns a reader of the recent values in the bucket of a shard, which may be nil.
func recentsOf(shard *bbolt.Bucket, key checkpoint.Key) *recents {
	r := &recents{key: key, opened: make(map[uint64][]byte)}
	if shard != nil {
		r.b = shard.Bucket([]byte(recentBucket))
	}
	return r
}

// at returns the change at a place. Its entity is good as long as the transaction.
func (r *recents) at(p place) (checkpoint.Change, error) {
	form, ok := r.opened[p.number()]
	if !ok {
		name := binary.BigEndian.AppendUint64(nil, p.number())
		if r.b == nil || r.b.Get(name) == nil {
			return checkpoint.Change{}, damaged("recent value %d of %s is gone", p.number(), r.key.Shard)
		}
		var err error
		if form, err = r.unseal(name, r.b.Get(name)); err != nil {
			return checkpoint.Change{}, err
		}
		r.opened[p.number()] = form
	}
	if p.offset() >= len(form) {
		return checkpoint.Change{}, damaged("recent value %d of %s ends before %d", p.number(), r.key.Shard, p.offset())
	}
	c, _, err := checkpoint.DecodeChange(form[p.offset():])
	return c, err
}

func (r *recents) unseal(name, value []byte) ([]byte, error) {
	return unseal(value, shardBucket, r.key.Stream, r.key.Shard, recentBucket, string(name))
}

// eachChange calls f for the changes of the form of a recent value, with where they begin.
func eachChange(form []byte, f func(offset int, c checkpoint.Change) error) error {
	for rest := form; len(rest) > 0; {
		offset := len(form) - len(rest)
		c, behind, err := checkpoint.DecodeChange(rest)
		if err != nil {
			return err
		}
		if offset >= 1<<offsetBits {
			return damaged("a recent value has %d bytes", len(form))
		}
		if err := f(offset, c); err != nil {
			return err
		}
		rest = behind
	}
	return nil
}
