package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"example.org/bridge/checkpoint/store"
)

// Apply makes all changes of a batch, or none.
func (s *Store) Apply(ctx context.Context, batch *store.Batch) error {
	if err := batch.Check(); err != nil {
		return err
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	return s.failed(s.apply(batch))
}

// apply applies a batch. Its caller holds applying.
func (s *Store) apply(batch *store.Batch) error {
	w := writer{store: s, names: &s.names, batch: s.db.NewBatch(), fresh: s.fresh.Load()}
	w.all(batch)
	err := w.err
	if err == nil {
		err = w.batch.Commit(pebble.NoSync)
	}
	if err == nil {
		s.names.unsaved = nil
	}
	return errors.Join(err, w.batch.Close())
}

// ForgetAbsent removes entities that were found absent before the given time.
func (s *Store) ForgetAbsent(ctx context.Context, of store.Key, before time.Time, limit int) (n int, err error) {
	number, ok := s.names.find(streamOf(of.Stream))
	if err := s.writable(ctx); err != nil || !ok {
		return 0, err
	}
	from := numbered(absentTag, number)
	end := binary.BigEndian.AppendUint64(from[:5:5], second(before))
	if last := s.forgotten.Swap(nil); last != nil && last.of == of && last.before.Equal(before) {
		from = last.to
	}
	for from != nil && n < limit && err == nil {
		var some int
		some, from, err = s.forgetSome(of, from, end, limit-n)
		n, err = n+some, cmp.Or(err, context.Cause(ctx))
	}
	if from != nil {
		s.forgotten.Store(&forgotten{of, before, from})
	}
	return n, err
}

// forgotten is to which key ForgetAbsent has come that has left some: the same call goes on there,
// as Pebble steps over each entry that was removed before.
type forgotten struct {
	of     store.Key
	before time.Time
	to     []byte
}

// lookedAt is how many absent entities are looked at while other batches wait.
const lookedAt = 10_000

// forgetSome looks at entities from a key on, and returns where to go on, nil for the end.
func (s *Store) forgetSome(of store.Key, from, end []byte, limit int) (n int, next []byte, err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	gone, looked := store.ViewChange{Stream: of.Stream}, 0
	err = each(s.db, from, end, func(key, value []byte) error {
		if looked++; len(gone.Changes) >= limit || looked > lookedAt {
			next = bytes.Clone(key)
			return errEnough
		}
		at, entity, err := split(key)
		if err != nil {
			return err
		}
		e, err := s.unpack(at, value)
		if of.Shard == "" || of.Shard == e.Shard {
			gone.Changes = append(gone.Changes, store.Change{Entity: bytes.Clone(entity)})
		}
		return err
	})
	if err == nil {
		err = s.apply(&store.Batch{Views: []store.ViewChange{gone}})
	}
	if err != nil {
		return 0, nil, s.failed(err)
	}
	return len(gone.Changes), next, nil
}

// writer makes one of Pebble's batches of one of ours. After the first error it does nothing.
type writer struct {
	store *Store
	names *names
	batch *pebble.Batch
	fresh *filter
	// forgotten are the streams that the batch forgets, by their numbers.
	forgotten map[uint32]bool
	err       error
	// targets are the changes of views, order has them by their hashes.
	targets []target
	order   []ordered
	// The rest is used again and again.
	key, value []byte
	locations  []location
}

func (w *writer) set(key, value []byte) {
	if w.err == nil {
		w.err = w.batch.Set(key, value, nil)
	}
}

func (w *writer) delete(key []byte) {
	if w.err == nil {
		w.err = w.batch.Delete(key, nil)
	}
}

func (w *writer) deleteAll(prefix []byte) {
	if w.err == nil {
		w.err = w.batch.DeleteRange(prefix, after(prefix), nil)
	}
}

func (w *writer) all(b *store.Batch) {
	for _, stream := range b.Forget {
		w.forget(stream)
	}
	if b.Epoch > 0 {
		w.set([]byte{epochTag}, binary.AppendUvarint(nil, b.Epoch))
	}
	for i := range b.Registrations {
		r := &b.Registrations[i]
		w.set(numbered(registrationTag, r.Number), appendRegistration(nil, r))
	}
	for i := range b.Shards {
		w.shard(&b.Shards[i])
	}
	w.views(b.Views)
	for _, n := range w.names.unsaved {
		key := binary.BigEndian.AppendUint32([]byte{nameTag, byte(n.kind)}, w.names.number(n))
		w.set(key, appendName(nil, n))
	}
}

func (w *writer) forget(stream string) {
	for _, shard := range w.names.shardsOf(stream) {
		w.delete(numbered(progressTag, shard))
		w.deleteAll(numbered(partTag, shard))
		w.deleteAll(numbered(entryTag, shard))
	}
	if number, ok := w.names.find(streamOf(stream)); ok {
		w.deleteAll(numbered(hashTag, number))
		w.deleteAll(numbered(absentTag, number))
		if w.forgotten == nil {
			w.forgotten = map[uint32]bool{}
		}
		w.forgotten[number] = true
	}
	w.err = errors.Join(w.err, w.store.eachRegistration(w.store.db, func(r store.Registration) {
		if r.Stream == stream {
			w.delete(numbered(registrationTag, r.Number))
		}
	}))
}

func (w *writer) shard(c *store.ShardChange) {
	number := w.names.number(shardOf(c.Key))
	if c.Remove {
		w.delete(numbered(progressTag, number))
		w.deleteAll(numbered(partTag, number))
	}
	if c.Progress != nil {
		w.set(numbered(progressTag, number), appendProgress(nil, c.Progress))
	}
	for _, kind := range c.Clear {
		w.deleteAll(append(numbered(partTag, number), byte(kind)))
	}
	for _, part := range c.Parts {
		if key := partKey(number, part.Kind, part.Number); part.Bytes == nil {
			w.delete(key)
		} else {
			w.set(key, part.Bytes)
		}
	}
}

type target struct {
	*store.Change
	stream, shard uint32
	hash          uint64
	// at is where the entry lies from now on, unless it is removed.
	at location
	// replaced says that a later change of the batch is about the same entity, there that its entry
	// lies at its location already.
	replaced, there bool
}

func (t *target) removes() bool { return t.Entry.State == store.Unknown }

// ordered is a change in the order of hashes, by its index in the batch.
type ordered struct {
	hash   uint64
	stream uint32
	index  int32
}

func (w *writer) add(views []store.ViewChange) {
	n := 0
	for i := range views {
		n += len(views[i].Changes)
	}
	w.targets, w.order = make([]target, 0, n), make([]ordered, 0, n)
	for i := range views {
		stream := w.names.number(streamOf(views[i].Stream))
		var shard name
		var number uint32
		for j := range views[i].Changes {
			t := target{Change: &views[i].Changes[j], stream: stream}
			t.hash = w.store.hash(t.Entity)
			if !t.removes() {
				if of := (name{shardName, t.Entry.Shard, views[i].Stream}); of != shard {
					shard, number = of, w.names.number(of)
				}
				t.shard, t.at = number, location{shard: number, row: t.Entry.Row}
				if t.Entry.State == store.Absent {
					t.at = location{absent: true, row: second(t.Entry.Since)}
				}
			}
			w.order = append(w.order, ordered{t.hash, stream, int32(len(w.targets))})
			w.targets = append(w.targets, t)
		}
	}
	slices.SortFunc(w.order, func(a, b ordered) int {
		if order := cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.hash, b.hash)); order != 0 {
			return order
		}
		return cmp.Or(bytes.Compare(w.targets[a.index].Entity, w.targets[b.index].Entity), cmp.Compare(a.index, b.index))
	})
	for i := 1; i < len(w.order); i++ {
		a, b := w.order[i-1], w.order[i]
		w.targets[a.index].replaced = a.stream == b.stream && a.hash == b.hash && bytes.Equal(w.targets[a.index].Entity, w.targets[b.index].Entity)
	}
}

// views changes entries, and the locations of their hashes. The hashes are written first, in their
// order, and then the entries in that of the batch, which mostly is that of their rows: so both
// are written, and former locations found, fastest.
func (w *writer) views(views []store.ViewChange) {
	w.add(views)
	all := w.targets
	if len(all) == 0 || w.err != nil {
		return
	}
	former, err := w.store.newFinder()
	if err != nil {
		w.err = err
		return
	}
	for i := range all {
		if t := &all[i]; !t.replaced && !t.removes() && w.mayBe(t.stream, t.hash) {
			t.there = former.entry(t.at, t.stream, t.Entity)
		}
	}
	for rest := w.order; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].hash == rest[0].hash && rest[n].stream == rest[0].stream {
			n++
		}
		w.hash(former, rest[:n])
		rest = rest[n:]
	}
	w.err = errors.Join(w.err, former.end())
	for i := range all {
		if t := &all[i]; !t.replaced && !t.removes() {
			w.key = append(t.at.appendPrefix(w.key[:0], t.stream), t.Entity...)
			w.value = appendEntry(w.value[:0], t.shard, &t.Entry)
			w.set(w.key, w.value)
		}
	}
}

// mayBe reports whether an entity with this hash may have an entry.
func (w *writer) mayBe(stream uint32, hash uint64) bool {
	return !w.fresh.lacks(stream, hash) && !w.forgotten[stream]
}

// hash changes the locations of a hash, of which each entity has one; group has its changes.
func (w *writer) hash(former *finder, group []ordered) {
	all, stream, hash := w.targets, group[0].stream, group[0].hash
	stays := func(one ordered) bool { return all[one.index].replaced || all[one.index].there }
	if !slices.ContainsFunc(group, func(one ordered) bool { return !stays(one) }) {
		return
	}
	locations, changed := w.locations[:0], false
	if w.mayBe(stream, hash) {
		locations = former.locations(stream, hash, locations)
	}
	for _, one := range group {
		t := &all[one.index]
		if stays(one) {
			continue
		}
		left := slices.IndexFunc(locations, func(at location) bool {
			return (at != t.at || t.removes()) && former.entry(at, stream, t.Entity)
		})
		if left >= 0 {
			w.delete(former.key)
			locations, changed = slices.Delete(locations, left, left+1), true
		}
		if !t.removes() {
			locations, changed = append(locations, t.at), true
		}
	}
	w.locations = locations
	w.key = appendHashKey(w.key[:0], stream, hash)
	switch {
	case !changed:
	case len(locations) == 0:
		w.delete(w.key)
	default:
		w.value = appendLocations(w.value[:0], locations)
		w.set(w.key, w.value)
		if w.fresh.add(stream, hash) {
			w.fresh = nil
			w.store.fresh.Store(nil)
		}
	}
}

const (
	// filterWords is the size of a filter, 16 MiB.
	filterWords = 1 << 21
	// maxFiltered is how many entries a filter takes: of the unknown ones it then misses 5 of 100.
	maxFiltered = 16_000_000
)

// filter is a Bloom filter, in memory, of the hashes of all entries in a store that this process
// has made: it says without a lookup that an entity is unknown. Catch-up without a store asks that
// of most entities. The nil filter knows nothing.
type filter struct {
	words []atomic.Uint64
	added int
}

func newFilter() *filter { return &filter{words: make([]atomic.Uint64, filterWords)} }

// bits returns where the bits of a hash in a stream are: a word, and two of its bits.
func (f *filter) bits(stream uint32, hash uint64) (word *atomic.Uint64, mask uint64) {
	hash += uint64(stream) * 0x9e3779b97f4a7c15
	return &f.words[hash%filterWords], 1<<(hash>>52&63) | 1<<(hash>>58)
}

// lacks reports whether the store has no entry with the hash, now.
func (f *filter) lacks(stream uint32, hash uint64) bool {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	return word.Load()&mask != mask
}

// add adds a hash before its entry is applied. One batch at a time adds. It reports whether the
// filter is full, and of no more use.
func (f *filter) add(stream uint32, hash uint64) (full bool) {
	if f == nil {
		return false
	}
	word, mask := f.bits(stream, hash)
	if word.Load()&mask != mask {
		word.Or(mask)
		f.added++
	}
	return f.added > maxFiltered
}
