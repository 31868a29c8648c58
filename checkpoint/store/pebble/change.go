package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"example.org/bridge/checkpoint/store"
)

// target is a change of an entry, with the numbers of its names.
type target struct {
	*store.Change
	stream, shard uint32
	hash          uint64
	// at is where the entry lies from now on, unless it is removed.
	at location
	// replaced says that a later change of the batch is about the same entity, mayBe that an entity
	// with its hash may have an entry, there that its entry lies at its location already.
	replaced, mayBe, there bool
}

func (t *target) removes() bool { return t.Entry.State == store.Unknown }

// ordered is a change in the order of hashes, by its index in the batch.
type ordered struct {
	hash   uint64
	stream uint32
	index  int32
}

// maxKept is the number of changes of which a store keeps the memory for the next batch.
const maxKept = 1 << 14

// changes are those of a batch. They are used again and again.
type changes struct {
	all   []target
	order []ordered
}

// reset forgets the changes, and keeps the memory where it is not unusually large.
func (c *changes) reset() {
	clear(c.all)
	c.all, c.order = c.all[:0], c.order[:0]
	if cap(c.all) > maxKept {
		*c = changes{}
	}
}

// groups yields the changes of each hash, in the order of hashes.
func (c *changes) groups(yield func([]ordered) bool) {
	for rest := c.order; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].hash == rest[0].hash && rest[n].stream == rest[0].stream {
			n++
		}
		if !yield(rest[:n:n]) {
			return
		}
		rest = rest[n:]
	}
}

// sort puts changes in the order of their hashes, and notes which are replaced.
func (c *changes) sort() {
	for i := range c.all {
		c.order = append(c.order, ordered{c.all[i].hash, c.all[i].stream, int32(i)})
	}
	slices.SortFunc(c.order, func(a, b ordered) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.hash, b.hash), cmp.Compare(a.index, b.index))
	})
	for group := range c.groups {
		// Of changes of one entity the last one holds.
		for i, one := range group[:len(group)-1] {
			t := &c.all[one.index]
			t.replaced = slices.ContainsFunc(group[i+1:], func(later ordered) bool { return bytes.Equal(c.all[later.index].Entity, t.Entity) })
		}
	}
}

// views changes entries, and the locations of their hashes. The hashes are written first, in their
// order, and then the entries in that of the batch, which mostly is that of their rows: so both
// are written, and former locations found, fastest.
func (w *writer) views(b *store.Batch) {
	w.targets(b.Views)
	all := w.changes.all
	if len(all) == 0 || w.err != nil {
		return
	}
	w.changes.sort()
	former, err := w.store.newFinder()
	if err != nil {
		w.err = err
		return
	}
	for i := range all {
		t := &all[i]
		// Of one group, all or none may have entries.
		t.mayBe = !w.fresh.lacks(t.stream, t.hash) && !w.forgotten[t.stream]
		if t.mayBe && !t.replaced && !t.removes() {
			t.there = former.entry(t.at, t.stream, t.Entity)
		}
	}
	for group := range w.changes.groups {
		w.hash(former, group)
	}
	w.err = errors.Join(w.err, former.end())
	for i := range all {
		w.entry(&all[i])
	}
}

// targets sets the changes to those of views.
func (w *writer) targets(views []store.ViewChange) {
	for i := range views {
		stream := w.names.number(name{streamName, views[i].Stream, ""})
		var shard name
		var number uint32
		for j := range views[i].Changes {
			t := target{Change: &views[i].Changes[j], stream: stream}
			t.hash = w.store.hash(t.Entity)
			if !t.removes() {
				if of := (name{shardName, t.Entry.Shard, views[i].Stream}); of != shard {
					shard, number = of, w.names.number(of)
				}
				t.shard, t.at = number, locationOf(number, &t.Entry)
			}
			w.changes.all = append(w.changes.all, t)
		}
	}
}

// hash changes the locations of a hash: each of its entities has one. group are the changes of
// entities with the hash, in their order.
func (w *writer) hash(former *finder, group []ordered) {
	all, first := w.changes.all, &w.changes.all[group[0].index]
	unchanged := func(one ordered) bool { return all[one.index].replaced || all[one.index].there }
	if !slices.ContainsFunc(group, func(one ordered) bool { return !unchanged(one) }) {
		return
	}
	w.locations = w.locations[:0]
	if first.mayBe {
		var err error
		w.locations, err = former.locations(first.stream, first.hash, w.locations)
		w.err = errors.Join(w.err, err)
	}
	changed := false
	for _, one := range group {
		if unchanged(one) {
			continue
		}
		t := &all[one.index]
		changed = w.leave(former, t) || changed
		if !t.removes() {
			w.locations, changed = append(w.locations, t.at), true
		}
	}
	w.key = appendHashKey(w.key[:0], first.stream, first.hash)
	switch {
	case !changed:
		return
	case len(w.locations) == 0:
		w.delete(w.key)
		return
	}
	w.value = appendLocations(w.value[:0], w.locations)
	w.set(w.key, w.value)
	if w.fresh.add(first.stream, first.hash) {
		w.fresh = nil
		w.store.fresh.Store(nil)
	}
}

// leave removes the entry of an entity from where it lies, and reports whether there was one.
func (w *writer) leave(former *finder, t *target) bool {
	for i, at := range w.locations {
		if (at != t.at || t.removes()) && former.entry(at, t.stream, t.Entity) {
			w.delete(former.key)
			w.locations = slices.Delete(w.locations, i, i+1)
			return true
		}
	}
	return false
}

// entry writes the entry of a change.
func (w *writer) entry(t *target) {
	if t.replaced || t.removes() {
		return
	}
	w.key = append(t.at.appendPrefix(w.key[:0], t.stream), t.Entity...)
	w.value = appendEntry(w.value[:0], t.shard, &t.Entry)
	w.set(w.key, w.value)
}

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
	w := writer{store: s, names: &s.names, batch: s.db.NewBatch(), fresh: s.fresh.Load(), changes: &s.changes}
	defer s.changes.reset()
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

// writer makes one of Pebble's batches of one of ours. After the first error it does nothing.
type writer struct {
	store *Store
	names *names
	batch *pebble.Batch
	fresh *filter
	// forgotten are the streams that the batch forgets, by their numbers.
	forgotten map[uint32]bool
	err       error
	// The rest is used again and again.
	changes    *changes
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

// deleteAll deletes what begins with prefix.
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
		w.set([]byte{epochTag}, appendEpoch(nil, b.Epoch))
	}
	for i := range b.Registrations {
		r := &b.Registrations[i]
		w.set(numbered(registrationTag, r.Number), appendRegistration(nil, r))
	}
	for i := range b.Shards {
		w.shard(&b.Shards[i])
	}
	w.views(b)
	for _, n := range w.names.unsaved {
		w.set(nameKey(n.kind, n.number), appendName(nil, n.name))
	}
}

func (w *writer) forget(stream string) {
	for _, shard := range w.names.shardsOf(stream) {
		w.delete(numbered(progressTag, shard))
		w.deleteAll(numbered(partTag, shard))
		w.deleteAll(numbered(entryTag, shard))
	}
	if number, ok := w.names.find(name{streamName, stream, ""}); ok {
		w.deleteAll(numbered(hashTag, number))
		w.deleteAll(numbered(absentTag, number))
		if w.forgotten == nil {
			w.forgotten = map[uint32]bool{}
		}
		w.forgotten[number] = true
	}
	if w.err == nil {
		w.err = w.store.eachRegistration(w.store.db, func(r store.Registration) {
			if r.Stream == stream {
				w.delete(numbered(registrationTag, r.Number))
			}
		})
	}
}

func (w *writer) shard(c *store.ShardChange) {
	number := w.names.number(shardOf(c.Key))
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
