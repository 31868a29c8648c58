package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
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
	const changeSize = 56 // beside the entity, at most
	// Places are sorted: changes are large.
	kept := newest(changes)
	slices.SortFunc(kept, func(a, b int) int {
		return cmp.Or(cmp.Compare(changes[a].Known.Row, changes[b].Known.Row), cmp.Compare(a, b))
	})
	size := sealSize
	for _, i := range kept {
		size += changeSize + len(changes[i].Entity)
	}
	var forms [][]byte
	for _, i := range kept {
		if n := len(forms); n == 0 || len(forms[n-1]) >= recentSize {
			forms = append(forms, make([]byte, 0, min(size, recentSize+recentSize/8)))
		}
		last := &forms[len(forms)-1]
		*last = appendSealed(*last, changes[i])
	}
	return forms
}

// newest returns where the last change of each entity is, in the order of changes.
func newest(changes []checkpoint.Change) []int {
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	if distinct(changes) {
		return order
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(bytes.Compare(changes[a].Entity, changes[b].Entity), cmp.Compare(a, b))
	})
	kept := order[:0]
	for n, i := range order {
		if n+1 == len(order) || !bytes.Equal(changes[i].Entity, changes[order[n+1]].Entity) {
			kept = append(kept, i)
		}
	}
	slices.Sort(kept)
	return kept
}

// distinct reports whether all changes are of different entities; false where it cannot tell.
func distinct(changes []checkpoint.Change) bool {
	seen := make(map[uint64]struct{}, len(changes))
	for i := range changes {
		seen[maphash.Bytes(distinctSeed, changes[i].Entity)] = struct{}{}
	}
	return len(seen) == len(changes)
}

var distinctSeed = maphash.MakeSeed()

// appendSealed appends a change and the CRC-32C over it, 4 bytes, little endian: so that one can be read without reading all.
func appendSealed(dst []byte, c checkpoint.Change) []byte {
	start := len(dst)
	dst = checkpoint.AppendChange(dst, c)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// sealedChange reads what appendSealed wrote from the front of b and returns what follows it. The entity shares memory with b.
func sealedChange(b []byte) (c checkpoint.Change, rest []byte, err error) {
	c, rest, err = checkpoint.DecodeChange(b)
	if err != nil {
		return c, nil, err
	}
	if len(rest) < sealSize || binary.LittleEndian.Uint32(rest) != crc32.Checksum(b[:len(b)-len(rest)], castagnoli) {
		return c, nil, damaged("a recent change has a wrong checksum")
	}
	return c, rest[sealSize:], nil
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
		// The form has room for the checksum. Nobody writes to it again: it belongs to the transaction until that ends.
		value := seal(form, shardBucket, a.key.Stream, a.key.Shard, recentBucket, string(name))
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

// at returns the change at a place. Its entity is good as long as the transaction. Of the value that it is in, it checks no more.
func (r *recents) at(p place) (checkpoint.Change, error) {
	value, ok := r.opened[p.number()]
	if !ok {
		if r.b != nil {
			value = r.b.Get(binary.BigEndian.AppendUint64(nil, p.number()))
		}
		r.opened[p.number()] = value
	}
	if p.offset() >= len(value) {
		return checkpoint.Change{}, damaged("recent value %d of %s has no change at %d", p.number(), r.key.Shard, p.offset())
	}
	c, _, err := sealedChange(value[p.offset():])
	return c, err
}

func (r *recents) unseal(name, value []byte) ([]byte, error) {
	return unseal(value, shardBucket, r.key.Stream, r.key.Shard, recentBucket, string(name))
}

// eachChange calls f for the changes of the form of a recent value, with where they begin.
func eachChange(form []byte, f func(offset int, c checkpoint.Change) error) error {
	for rest := form; len(rest) > 0; {
		offset := len(form) - len(rest)
		c, behind, err := sealedChange(rest)
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
